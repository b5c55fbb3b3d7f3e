import { mismatch } from "../../pkg/ip/mod.ts"
import { isErrno } from "../../pkg/libc/mod.ts"
import {
  addFilter,
  addHtbClass,
  addQdisc,
  deleteQdisc,
  type Filter,
  type FilterSpec,
  filterProtocols,
  findQdisc,
  listFilters,
  listHtbClasses,
  type NamedLink,
  type NetlinkSocket,
  qdiscOptions,
  TC_H_ROOT,
  type U32Key,
} from "../../pkg/netlink/mod.ts"
import { AF_INET, type Cidr, CniError, Code, familyOf, prefixMask } from "../../pkg/types/mod.ts"
import type { Undo } from "../../pkg/undo/mod.ts"
import type { Subnets } from "./config.ts"
import {
  classQueueLimit,
  describeLimit,
  describeQdisc,
  htbOptions,
  isHtbClassOf,
  isTbfOf,
  type Limit,
  queueLimit,
  tbfOptions,
} from "./limit.ts"

/** The limit of the packets that a link sends, and the peers to which it applies. */
export interface Shape {
  limit: Limit
  subnets: Subnets | undefined
  /** The header field with the peer's address: `dst` in packets from the container, `src` in packets to it. */
  peer: "src" | "dst"
}

type Device = NamedLink

/** The handle of our qdisc, `1:`, the same as upstream's. */
export const HANDLE = 0x10000
/** The class that limits, `1:30`, and the class without a limit, `1:1`, as in upstream's v1.5. */
const SHAPED = HANDLE | 0x30
const UNSHAPED = HANDLE | 1
/** A rate that no node reaches, and a burst of 1 ms at that rate. */
const unlimited: Limit = { rate: 1e11, burst: 1e8 }

/** Limits the packets that a link sends, like `tc qdisc add dev LINK root handle 1: tbf …`. Throws `CniError`. */
export function addShaper(route: NetlinkSocket, device: Device, shape: Shape, undo: Undo): void {
  const kind = shape.subnets ? "htb" : "tbf"
  try {
    addRoot(route, device, shape)
    undo.defer(`limit "${device.name}"`, () => deleteQdisc(route, device, TC_H_ROOT))
    if (shape.subnets) addClasses(route, device, { ...shape, subnets: shape.subnets })
  } catch (cause) {
    throw new CniError(Code.Internal, `Cannot limit "${device.name}"`, {
      details: reasonOf(route, device, kind, cause),
      cause,
    })
  }
}

function addRoot(route: NetlinkSocket, device: Device, { limit, subnets }: Shape): void {
  if (!subnets) {
    addQdisc(route, device, { kind: "tbf", handle: HANDLE, options: tbfOptions(limit) })
    return
  }
  const defaultClass = subnets.areShaped ? 1 : 0x30
  const glob = { version: 3, rateToQuantum: 10, defaultClass }
  addQdisc(route, device, { kind: "htb", handle: HANDLE, options: { glob } })
}

function addClasses(route: NetlinkSocket, device: Device, shape: Shape & { subnets: Subnets }): void {
  addHtbClass(route, device, { id: SHAPED, options: htbOptions(shape.limit) })
  addQdisc(route, device, { kind: "bfifo", parent: SHAPED, options: { limit: classQueueLimit(shape.limit) } })
  addHtbClass(route, device, { id: UNSHAPED, options: htbOptions(unlimited) })
  for (const filter of planFilters(shape)) addFilter(route, device, filter)
}

/** Returns a filter for each subnet, which selects the class that is not the default. The priorities are upstream's. */
export function planFilters({ subnets: { list, areShaped }, peer }: Shape & { subnets: Subnets }): FilterSpec[] {
  return list.map((subnet) => {
    const isIpv4 = familyOf(subnet.ip) === AF_INET
    return {
      kind: "u32",
      parent: HANDLE,
      protocol: isIpv4 ? filterProtocols.ip : filterProtocols.ipv6,
      priority: isIpv4 ? 16 : 15,
      options: { classId: areShaped ? SHAPED : UNSHAPED, selector: keysOf(subnet, peer) },
    }
  })
}

/** The offsets of the addresses in the IP headers, by the length of an address. */
const offsets = { 4: { src: 12, dst: 16 }, 16: { src: 8, dst: 24 } } as const

/** Returns one u32 key for each 32-bit word of an address that a prefix covers, and at least one key. */
function keysOf({ ip, prefix }: Cidr, peer: "src" | "dst"): U32Key[] {
  const [value, mask] = [new DataView(ip.buffer, ip.byteOffset), new DataView(prefixMask(ip.length, prefix).buffer)]
  const words = Math.max(1, Math.ceil(prefix / 32))
  const start = offsets[ip.length === 4 ? 4 : 16][peer]
  return Array.from({ length: words }, (_, at) => ({
    mask: mask.getUint32(at * 4),
    value: value.getUint32(at * 4),
    offset: start + at * 4,
  }))
}

function reasonOf(route: NetlinkSocket, device: Device, kind: string, cause: unknown): string {
  if (isErrno(cause, "ENOENT")) return `the kernel has no ${kind}: load the module "sch_${kind}": ${cause}`
  if (!isErrno(cause, "EEXIST")) return String(cause)
  const found = describeQdisc(findQdisc(route, device, TC_H_ROOT))
  return `it has a qdisc of another program: ${found}; "tc qdisc del dev ${device.name} root" removes it`
}

/** Checks that a link has the configured limit. Throws `CniError` that names the first difference. */
export function checkShaper(route: NetlinkSocket, device: Device, { subnets, ...shape }: Shape): void {
  const { limit } = shape
  const found = findQdisc(route, device, TC_H_ROOT)
  if (subnets) checkHtb(route, device, { ...shape, subnets })
  else if (!found || !isTbfOf(found, limit)) {
    const wanted = `tbf 1: ${describeLimit(limit)} limit ${queueLimit(limit)}b`
    throw mismatch(`the root qdisc of "${device.name}"`, wanted, describeQdisc(found))
  }
}

function checkHtb(route: NetlinkSocket, device: Device, shape: Shape & { subnets: Subnets }): void {
  const found = findQdisc(route, device, TC_H_ROOT)
  const defaultClass = shape.subnets.areShaped ? 1 : 0x30
  const glob = found && qdiscOptions(found, "htb")?.glob
  if (glob?.defaultClass !== defaultClass) {
    const wanted = `htb 1: with the default class 1:${defaultClass.toString(16)}`
    throw mismatch(`the root qdisc of "${device.name}"`, wanted, describeQdisc(found))
  }
  const classes = listHtbClasses(route, device)
  for (const [id, limit] of [
    [SHAPED, shape.limit],
    [UNSHAPED, unlimited],
  ] as const) {
    const one = classes.find((each) => each.id === id)
    const name = `class 1:${(id & 0xffff).toString(16)} of "${device.name}"`
    if (!one || !isHtbClassOf(one, limit)) throw mismatch(name, describeLimit(limit), one ? "another limit" : "none")
  }
  const present = listFilters(route, device, HANDLE).map(describeFilter)
  for (const filter of planFilters(shape)) {
    const wanted = describeFilter(filter)
    if (!present.includes(wanted))
      throw mismatch(`the filters of "${device.name}"`, wanted, present.join(", ") || "none")
  }
  const surplus = present.length - shape.subnets.list.length
  if (surplus > 0)
    throw mismatch(`the filters of "${device.name}"`, `${shape.subnets.list.length}`, `${present.length}`)
}

/** Formats the comparisons of a filter and its class, like `match 0a010000/ffff0000 at 16 flowid 1:1`. */
function describeFilter({ protocol, options }: FilterSpec | Filter): string {
  const hex = (word: number) => word.toString(16).padStart(8, "0")
  const keys = (options?.selector ?? []).map(
    ({ value, mask, offset }) => `match ${hex(value)}/${hex(mask)} at ${offset}`,
  )
  const protocolName =
    protocol === filterProtocols.ip ? "ip" : protocol === filterProtocols.ipv6 ? "ipv6" : `${protocol}`
  return [`protocol ${protocolName}`, ...keys, `flowid 1:${((options?.classId ?? 0) & 0xffff).toString(16)}`].join(" ")
}
