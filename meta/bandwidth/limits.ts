import { checkUp, HostEnds } from "../../pkg/attachment/mod.ts"
import { mismatch } from "../../pkg/ip/mod.ts"
import { type Link, RouteSocket, redirectsOf } from "../../pkg/netlink/mod.ts"
import type { Restorable, Restoring } from "../../pkg/skel/mod.ts"
import { Failures, Undo } from "../../pkg/undo/mod.ts"
import type { BandwidthConfig } from "./config.ts"
import { addIfb, findIfbs, ifbOwner, startIfb } from "./ifb.ts"
import { isLimited, type LimitedPlace, limitedPlace } from "./place.ts"
import { addRedirect, checkRedirect, listReceiveFilters, removeShaping } from "./redirect.ts"
import { addShaper, checkShaper } from "./shaper.ts"

/** Removes a link's leftover limits, those of a killed or repeated ADD or of upstream's DEL. Throws `CniError`. */
export function removeLeavings(place: LimitedPlace): void {
  const leavings = new Failures()
  removeShaping(place, leavings)
  leavings.throwIfAny()
}

/**
 * Limits the rates at which a link sends and receives. Received packets cannot be queued at the link, so they are
 * redirected to an ifb device, which forwards them at the limited rate. Returns this device. Throws `CniError`.
 */
export function addLimits({ route, link, sends, receives, ...whose }: LimitedPlace, undo: Undo): Link | undefined {
  if (sends) addShaper(route, link, sends, undo)
  if (!receives) return undefined
  const ifb = addIfb(route, whose, link, undo)
  addShaper(route, ifb, receives, undo)
  const started = startIfb(route, whose, ifb)
  addRedirect(route, link, started, undo)
  return started
}

/** Checks the limits of a link. Throws `CniError` that names the first difference from the state after ADD. */
export function checkLimits({ route, link, sends, receives, ...whose }: LimitedPlace): void {
  if (sends) checkShaper(route, link, sends)
  if (!receives) return
  const redirects = listReceiveFilters(route, link).flatMap(redirectsOf)
  const ifbs = findIfbs(route, { ...whose, redirects })
  const ifb = ifbs.find(({ index }) => redirects.includes(index)) ?? ifbs[0]
  if (!ifb) throw mismatch(`the ifb of "${link.name}"`, `"${whose.upstreamName}"`, "none")
  checkUp(ifb, "ifb")
  checkRedirect(route, link, ifb)
  checkShaper(route, ifb, receives)
}

/** Restores limits on the host's ends of pairs. Skips deleted ends, with which the container's were deleted too. */
export function restoreLimits({ attachments, isDry, log }: Restoring<BandwidthConfig>): void {
  const wanted = attachments.filter(({ config }) => config.ingress || config.egress)
  if (wanted.length === 0) return
  using host = RouteSocket.open()
  const ends = new HostEnds(host)
  for (const one of wanted) {
    try {
      const place = placeOnHost(host, ends, one)
      if (!place || isLimitedAt(place)) continue
      if (!isDry) {
        using undo = new Undo(log)
        removeLeavings(place)
        addLimits(place, undo)
        undo.keep()
      }
      one.tell(`limits of "${place.link.name}"`)
    } catch (error) {
      one.refuse(error)
    }
  }
}

function placeOnHost(
  host: RouteSocket,
  ends: HostEnds,
  { owner, result, config }: Restorable<BandwidthConfig>,
): LimitedPlace | undefined {
  const end = config.shapeIn === "container" ? undefined : ends.findEnd({ owner, result })
  const whose = { ...ifbOwner(owner), prevResult: result }
  if (!end || !isLimited(end, whose, config.shapeIn)) return undefined
  return limitedPlace(config, { ...whose, route: host, link: end, isInside: false })
}

function isLimitedAt(place: LimitedPlace): boolean {
  try {
    checkLimits(place)
    return true
  } catch {
    return false
  }
}
