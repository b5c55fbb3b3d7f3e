import { deleteInContainers, describeInterface, requireKind } from "../../pkg/attachment/mod.ts"
import { isErrno } from "../../pkg/libc/mod.ts"
import {
  addQdisc,
  assignNsid,
  findLink,
  type Link,
  listLinks,
  type NetlinkSocket,
  RouteSocket,
} from "../../pkg/netlink/mod.ts"
import { type Answered, type Call, defineRestorable, requireForAdd, runPlugin } from "../../pkg/skel/mod.ts"
import { type Attachment, CniError, Code, type Interface, ownersOf, type Result, staleOf } from "../../pkg/types/mod.ts"
import { Failures, Undo } from "../../pkg/undo/mod.ts"
import { type BandwidthConfig, bandwidthFields, parseBandwidthConfig } from "./config.ts"
import { addLimits, checkLimits, removeLeavings, restoreLimits } from "./limits.ts"
import { Sides } from "./place.ts"
import { listReceiveFilters, removeParts, removeShaping } from "./redirect.ts"

export { bandwidthKeyDocs } from "./config.ts"

/** Limits the rates at which a container sends and receives. An earlier plugin of the chain must have connected it. */
export const bandwidth = defineRestorable<BandwidthConfig>({
  name: "bandwidth",
  fields: bandwidthFields,
  config: parseBandwidthConfig,
  add: addBandwidth,
  check: checkBandwidth,
  del: deleteLimits,
  status: requireUsable,
  gc: collectGarbage,
  restore: restoreLimits,
})

function addBandwidth(call: Call, config: BandwidthConfig): Answered {
  const result = requirePrevResult(call)
  if (!config.ingress && !config.egress) return call.answer(result)
  using sides = Sides.open(call)
  const place = sides.getPlace(config)
  removeLeavings(place)
  using undo = new Undo(call.log)
  if (place.receives && place.isInside && sides.sandbox) assignNsid(sides.host, sides.sandbox.fd) // for GC; the kernel deletes the nsid with the namespace
  const ifb = addLimits(place, undo)
  if (!ifb) return call.answer(result, undo)
  const added: Interface = { ...describeInterface(ifb), ...(place.isInside ? { sandbox: call.netns } : {}) }
  return call.answer({ ...result, interfaces: [...result.interfaces, added] }, undo)
}

function requirePrevResult({ network: { prevResult }, ifName }: Call): Result {
  if (prevResult) return prevResult
  throw new CniError(Code.InvalidNetworkConfig, `Cannot limit "${ifName}": prevResult is missing`, {
    details: "bandwidth must be called as chained plugin: it limits the interface of an earlier plugin of the chain",
  })
}

function checkBandwidth(call: Call, config: BandwidthConfig): void {
  requirePrevResult(call)
  if (!config.ingress && !config.egress) return
  using sides = Sides.open(call)
  checkLimits(sides.getPlace(config))
}

/** Removes every limit of the attachment that is found in the kernel, even if the configuration does not name it. */
function deleteLimits(call: Call, config: BandwidthConfig): void {
  const failures = new Failures(call.log)
  using sides = Sides.find(call)
  const places = failures.attempt(`find "${call.ifName}"`, () => sides.listPlaces(config)) ?? []
  for (const place of places) removeShaping(place, failures)
  failures.throwIfAny()
}

/** Throws code 50 if this kernel cannot set the limits that the configuration contains. */
function requireUsable(_call: Call, { ingress, egress, subnets, shapeIn }: BandwidthConfig): void {
  if (!ingress && !egress) return
  using host = RouteSocket.open()
  requireForAdd(() => {
    requireQdisc(host, subnets ? "htb" : "tbf")
    if (shapeIn === "container" ? ingress : egress) requireKind(host, "ifb")
  })
}

/**
 * Throws `CniError` if the kernel lacks a kind of qdisc. It sends a request without parameters, which creates nothing.
 */
function requireQdisc(host: NetlinkSocket, kind: "tbf" | "htb"): void {
  const loopback = findLink(host, "lo")
  if (!loopback) return
  try {
    addQdisc(host, loopback, { kind, options: {} })
  } catch (error) {
    if (!isErrno(error, "ENOENT")) return
    const details = `the kernel has no ${kind}: load the module "sch_${kind}"`
    throw new CniError(Code.Internal, `Cannot limit any interface by ${kind}`, { details })
  }
}

/**
 * Removes the limits of this network's attachments that are not valid: the limits of existing host ends with the owner
 * as alias, and all ifb devices, also inside containers.
 */
function collectGarbage(
  { network: { name }, log }: Call,
  _config: BandwidthConfig,
  attachments: readonly Attachment[],
): void {
  const isStale = staleOf(name, ownersOf(name, attachments))
  using host = RouteSocket.open()
  const failures = new Failures()
  const isWanted = ({ kind, attributes: { alias } }: Link) =>
    (kind === "ifb" || kind === "veth") && alias !== undefined && isStale(alias)
  const stale = Map.groupBy(listLinks(host, isWanted), ({ attributes: { alias } }) => alias)
  const kept = new Set<string | undefined>() // the last step must not delete their ifbs: the host may have an nsid for itself
  for (const [alias, links] of stale) {
    const link = links.find(({ kind }) => kind === "veth")
    const ifbs = links.filter(({ kind }) => kind === "ifb")
    const filters = link && failures.attempt(`list the filters of "${link.name}"`, () => listReceiveFilters(host, link))
    if (!removeParts({ route: host, link, filters, ifbs }, failures)) kept.add(alias)
  }
  const isStaleInside = (alias: string) => isStale(alias) && !kept.has(alias)
  failures.attempt("delete ifbs in containers", () => deleteInContainers("ifb", isStaleInside, log))
  failures.throwIfAny()
}

if (import.meta.main) runPlugin(bandwidth)
