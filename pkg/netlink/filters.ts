import { ETH_P_ALL, ETH_P_IP, ETH_P_IPV6 } from "../libc/mod.ts"
import type { NamedLink } from "./links.ts"
import { NLM_F_CREATE, NLM_F_EXCL } from "./message.ts"
import type { NetlinkSocket } from "./socket.ts"
import { type FilterKind, type FilterOptions, filterKinds, findRedirect, trafficPayload } from "./traffic-table.ts"

/** <linux/rtnetlink.h> */
const RTM_NEWTFILTER = 44
const RTM_DELTFILTER = 45
const RTM_GETTFILTER = 46

/** The protocol of the packets that a filter examines, <linux/if_ether.h>. */
export const filterProtocols = { all: ETH_P_ALL, ip: ETH_P_IP, ipv6: ETH_P_IPV6 } as const

/** A filter to add. The kernel chooses its handle. */
export interface FilterSpec<K extends FilterKind = "u32"> {
  kind: K
  /** The handle of the filter's qdisc, or one of the qdisc's hooks. */
  parent: number
  protocol: number
  /** Lower priorities are evaluated first. */
  priority: number
  options: FilterOptions<K>
}

/** A filter as the kernel describes it. */
export interface Filter {
  kind: string
  handle: number
  parent: number
  protocol: number
  priority: number
  /** The filter's chain, if not 0. Such a chain sees only packets that another filter's action sends to it. */
  chain?: number
  /** The options; undefined for a kind that is not in `filterKinds`. */
  options?: FilterOptions<"u32"> & FilterOptions<"bpf">
}

/** Adds a filter, like `tc filter add dev LINK parent PARENT protocol all prio 1 u32 …`. Throws `NetlinkError`. */
export function addFilter<K extends FilterKind>(route: NetlinkSocket, device: NamedLink, spec: FilterSpec<K>): void {
  const { kind, parent, options } = spec
  const payload = trafficPayload.encode(
    { index: device.index, parent, info: infoOf(spec) },
    { kind, options: filterKinds[kind].encode(options as never) },
  )
  const flags = NLM_F_CREATE | NLM_F_EXCL
  route.execute({ type: RTM_NEWTFILTER, flags, what: `add a filter to "${device.name}"`, payload })
}

/** Returns filters, like `tc filter show dev LINK parent PARENT`; an empty list if the parent does not exist. */
export function listFilters(route: NetlinkSocket, device: NamedLink, parent: number): Filter[] {
  const payload = trafficPayload.encode({ index: device.index, parent })
  return route.dump({ type: RTM_GETTFILTER, what: `list the filters of "${device.name}"`, payload }, (message) => {
    const { header, attributes } = trafficPayload.decode(message.payload)
    const { kind = "", options, chain = 0 } = attributes
    // The kernel first sends an entry without a handle for all filters of one priority, and for u32 then the hash
    // table.
    if (header.handle === 0 || (kind === "u32" && (header.handle & 0xfff) === 0)) return undefined
    return {
      kind,
      handle: header.handle,
      parent,
      protocol: ((header.info & 0xff) << 8) | ((header.info >> 8) & 0xff),
      priority: header.info >>> 16,
      ...(chain === 0 ? {} : { chain }),
      ...(isKnown(kind) && options ? { options: filterKinds[kind].decode(options) } : {}),
    }
  })
}

/**
 * Deletes one filter, like `tc filter del … handle HANDLE u32`. With handle 0, deletes all filters of its priority,
 * like `tc filter del … prio 1`. Throws `ENOENT` if the filter does not exist.
 */
export function deleteFilter(route: NetlinkSocket, device: NamedLink, filter: Filter): void {
  const { kind, handle, parent } = filter
  const payload = trafficPayload.encode({ index: device.index, handle, parent, info: infoOf(filter) }, { kind })
  route.execute({ type: RTM_DELTFILTER, what: `delete a filter of "${device.name}"`, payload })
}

/** Returns the indexes of the links to which a filter redirects packets; 0 for a link that no longer exists. */
export function redirectsOf({ options }: Filter): number[] {
  return (options?.actions ?? []).flatMap((action) => findRedirect(action) ?? [])
}

function isKnown(kind: string): kind is FilterKind {
  return Object.hasOwn(filterKinds, kind)
}

/** `tcm_info`: the priority, and the protocol in network order. */
function infoOf({ priority, protocol }: Pick<Filter, "priority" | "protocol">): number {
  return ((priority << 16) | ((protocol & 0xff) << 8) | (protocol >> 8)) >>> 0
}
