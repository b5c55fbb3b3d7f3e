/** Encodes routes and addresses like the kernel, without code under test: <linux/rtnetlink.h>, <linux/if_addr.h>. */

/** The attributes of a route. The defaults are those of a default route in table main. */
export interface SaidRoute {
  readonly dst?: Uint8Array
  readonly family?: 2 | 10
  readonly prefix?: number
  readonly table?: number
  /** RTPROT_*; boot by default. */
  readonly protocol?: number
  readonly oif?: number
  readonly priority?: number
  readonly gateway?: Uint8Array
  readonly hops?: readonly { readonly oif: number; readonly gateway?: Uint8Array }[]
}

/** Returns an `RTM_NEWROUTE`: struct rtmsg, RTA_DST 1, OIF 4, GATEWAY 5, PRIORITY 6, MULTIPATH 9, TABLE 15. */
export function routePayload(said: SaidRoute): Uint8Array {
  const {
    dst,
    family = dst?.length === 16 ? 10 : 2,
    prefix = 0,
    table = 254,
    protocol = 3,
    oif,
    priority,
    gateway,
    hops,
  } = said
  const via = (one: Uint8Array | undefined) => (one ? attribute(5, one) : [])
  // Several struct rtnexthop, each with its own attributes.
  const nextHops = (hops ?? []).flatMap((hop) => [
    8 + via(hop.gateway).length,
    0,
    0,
    0,
    ...word(hop.oif),
    ...via(hop.gateway),
  ])
  return Uint8Array.from([
    ...[family, prefix, 0, 0, table < 256 ? table : 0, protocol, 0, 1, 0, 0, 0, 0],
    ...attribute(15, word(table)),
    ...(dst === undefined ? [] : attribute(1, dst)),
    ...(oif === undefined ? [] : attribute(4, word(oif))),
    ...via(gateway),
    ...(priority === undefined ? [] : attribute(6, word(priority))),
    ...(hops === undefined ? [] : attribute(9, nextHops)),
  ])
}

/** Returns the payload of an `RTM_NEWADDR`: struct ifaddrmsg, IFA_ADDRESS 1, IFA_LOCAL 2, IFA_FLAGS 8. */
export function addressPayload(index: number, ip: Uint8Array, prefix: number, flags = 0): Uint8Array {
  const family = ip.length === 4 ? 2 : 10
  const local = family === 2 ? attribute(2, ip) : []
  return Uint8Array.from([
    family,
    prefix,
    flags & 0xff,
    0,
    ...word(index),
    ...attribute(1, ip),
    ...local,
    ...attribute(8, word(flags)),
  ])
}

const word = (value: number) => [value & 0xff, (value >> 8) & 0xff, (value >> 16) & 0xff, value >>> 24]

const attribute = (type: number, bytes: Iterable<number>) => {
  const content = [...bytes]
  return [4 + content.length, 0, type, 0, ...content]
}
