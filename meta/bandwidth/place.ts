import { findHostEnd, findSandbox, openSandbox } from "../../pkg/attachment/mod.ts"
import { findLink, type Link, listLinks, RouteSocket } from "../../pkg/netlink/mod.ts"
import type { Netns } from "../../pkg/netns/mod.ts"
import type { Call } from "../../pkg/skel/mod.ts"
import { CniError, Code, ownerComment, ownerOf } from "../../pkg/types/mod.ts"
import type { BandwidthConfig } from "./config.ts"
import { ifbOwner } from "./ifb.ts"
import type { Place } from "./redirect.ts"
import type { Shape } from "./shaper.ts"

export interface LimitedPlace extends Place {
  link: Link
  sends: Shape | undefined
  receives: Shape | undefined
  /** Whether the link is the container's interface rather than its peer on the host. */
  isInside: boolean
}

/** Returns a link with the configured limits. The host's end sends what the container receives, so it swaps them. */
export function limitedPlace(
  { ingress, egress, subnets }: BandwidthConfig,
  place: Omit<LimitedPlace, "sends" | "receives">,
): LimitedPlace {
  const toContainer = ingress && ({ limit: ingress, subnets, peer: "src" } as const)
  const fromContainer = egress && ({ limit: egress, subnets, peer: "dst" } as const)
  const [sends, receives] = place.isInside ? [fromContainer, toContainer] : [toContainer, fromContainer]
  return { ...place, sends, receives }
}

/** The container's namespace and the host's, opened for one call. */
export class Sides implements Disposable {
  readonly host: RouteSocket
  readonly sandbox: Netns | undefined
  readonly inside: RouteSocket | undefined
  readonly link: Link | undefined
  readonly #call: Call

  private constructor(call: Call, sandbox: Netns | undefined) {
    this.#call = call
    this.host = RouteSocket.open()
    this.sandbox = sandbox
    this.inside = sandbox?.openRoute()
    this.link = this.inside && findLink(this.inside, call.ifName)
  }

  /** Opens the namespaces of a call. Throws code 4 if the path does not exist, or is that of another container. */
  static open(call: Call): Sides {
    return new Sides(call, openSandbox(call))
  }

  /** Opens the namespaces for DEL, which also works without the container's namespace or interface. */
  static find(call: Call): Sides {
    return new Sides(call, findSandbox(call))
  }

  /**
   * Returns the link to limit: the host's end of an earlier plugin's veth pair if there is one and `shapeIn` allows it,
   * or else the interface in the container. Throws `CniError` if the link does not exist.
   */
  getPlace(config: BandwidthConfig): LimitedPlace {
    const { shapeIn } = config
    const { host, sandbox, inside, link } = this
    const { ifName, netns, network } = this.#call
    if (!sandbox || !inside || !link) {
      throw new CniError(Code.Internal, `Cannot limit "${ifName}" in "${netns}": the interface does not exist`)
    }
    const common = { ...ifbOwner(ownerOf(this.#call)), prevResult: network.prevResult }
    const end = shapeIn === "container" ? undefined : findHostEnd(host, sandbox, link)
    if (end && isLimited(end, common, shapeIn)) {
      return limitedPlace(config, { ...common, route: host, link: end, isInside: false })
    }
    if (shapeIn !== "host") {
      return limitedPlace(config, { ...common, route: inside, link, isInside: true })
    }
    throw new CniError(Code.InvalidNetworkConfig, `Cannot limit "${ifName}" on the host: it has no peer there`, {
      details: `it is of kind "${link.kind}": remove "shapeIn", or set it to "container"`,
    })
  }

  /** Returns every link that may have limits, including links that the configuration no longer selects. */
  listPlaces({ shapeIn }: BandwidthConfig): Place[] {
    const { host, sandbox, inside, link } = this
    const common = { ...ifbOwner(ownerOf(this.#call)), prevResult: this.#call.network.prevResult }
    const found = sandbox && link ? findHostEnd(host, sandbox, link) : this.#findEndByOwner()
    const end = found && isLimited(found, common, shapeIn) ? found : undefined
    const places: Place[] = [{ ...common, route: host, link: end }]
    return inside ? [{ ...common, route: inside, link }, ...places] : places
  }

  /** Returns the host's end of our interface plugins by its owner, if the container's interface cannot be inspected. */
  #findEndByOwner(): Link | undefined {
    const comment = ownerComment(ownerOf(this.#call))
    return listLinks(this.host, ({ kind, attributes: { alias } }) => kind === "veth" && alias === comment)[0]
  }

  [Symbol.dispose](): void {
    this.inside?.[Symbol.dispose]()
    this.sandbox?.[Symbol.dispose]()
    this.host[Symbol.dispose]()
  }
}

/**
 * Reports whether bandwidth limits this host's end. An end with another owner is not limited, because the container may
 * have renamed its interfaces. An end without an owner is limited only if the configuration or the result names it,
 * because it may be the peer of a veth that was moved into the container.
 */
export function isLimited(
  { name, attributes: { alias } }: Link,
  { owner, prevResult }: Pick<Place, "owner" | "prevResult">,
  shapeIn: BandwidthConfig["shapeIn"],
): boolean {
  if (alias === ownerComment(owner)) return true
  if (alias?.split("/").length === 3) return false
  if (shapeIn === "host" || !prevResult) return true
  return prevResult.interfaces.some((each) => each.name === name && !each.sandbox)
}
