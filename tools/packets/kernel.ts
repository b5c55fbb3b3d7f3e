import { readTextFile } from "../../pkg/libc/mod.ts"
import {
  askRoute,
  findLink,
  type Ifindex,
  type Link,
  type ListedRoute,
  listAddresses,
  listNeighbours,
  type Neighbour,
  type RouteQuestion,
  type RouteRefusal,
  RouteSocket,
} from "../../pkg/netlink/mod.ts"
import {
  type Element,
  findCatchAll,
  findElements,
  findSetLayout,
  getElement,
  type NamedSet,
  PacketFilter,
  type SetLayout,
  type Table,
} from "../../pkg/nftables/mod.ts"
import { formatIp, sameBytes } from "../../pkg/types/mod.ts"
import { type HostIpsec, type NodeLink, readHostIpsec, readTrafficFilters, type TrafficFilter } from "../node/mod.ts"
import { type Bits, mayBe } from "./bits.ts"

/** `RTN_*`, <linux/rtnetlink.h>: the type of an address. */
export const RTN = { unicast: 1, local: 2, broadcast: 3, anycast: 4, multicast: 5 } as const

/** Kernel state that rules look up for an evaluated packet. Tests supply their own. */
export interface Kernel {
  /** Returns the layout of a set or map, or `undefined` if it does not exist. */
  layoutOf(table: Table, set: string): SetLayout | undefined
  /** Returns the element that contains a key, possibly in a range, or else the catch-all element. */
  elementOf(table: Table, set: string, layout: SetLayout, key: Uint8Array): Element | undefined
  /** Reports whether a set or map may contain a partly unknown key. True if that cannot be told, as with ranges. */
  mayHave(table: Table, set: string, layout: SetLayout, key: Bits): boolean
  /** Returns the `RTN_*` type of an address on the host, or on `link` only. */
  addressType(ip: Uint8Array, link?: string): number
  /** Returns the link of the host's route to an address, which `fib … oif` loads. */
  linkTowards(ip: Uint8Array, mark: number | undefined): Pick<Link, "index" | "name"> | undefined
  /** Returns a link's first address in the family of `like`. `masquerade` and `redirect` use it. */
  addressOn(link: string, like: Uint8Array): Uint8Array | undefined
  /** Returns the properties of an interface that rules compare, or undefined if unknown. */
  interfaceOf(name: string): InterfaceNumbers | undefined
  /** Reports whether a list of iptables' `recent` contains an address. Undefined if the list does not exist. */
  isRecent(list: string, ip: Uint8Array): boolean | undefined
  /** Whether routes, and thus the results of `fib`, are unknown. */
  readonly isWithoutRoutes?: true
}

/** The values of `iif`, `iiftype`, `iifgroup` and `iifkind`. */
export interface InterfaceNumbers {
  readonly index: number
  readonly type: number
  readonly group: number
  /** The kind of a virtual link, such as "bridge". "" for a physical device. */
  readonly kind: string
}

/** The kernel state of the namespace in which the object was created. Sends each request once. */
export class HostKernel implements Kernel, Disposable {
  readonly #route = RouteSocket.open()
  readonly #filter = PacketFilter.find()
  readonly #answers = new Map<string, unknown>()

  /** Returns the kernel's route for a packet, by all tables and policy rules, or the reason why it has no route. */
  routeOf(question: RouteQuestion): ListedRoute | RouteRefusal {
    const { dst, src, input, mark, destinationPort } = question
    return this.#once(
      `route ${formatIp(dst)} ${src && formatIp(src)} ${input} ${mark} ${destinationPort} ${question.protocol}`,
      () => askRoute(this.#route, question),
    )
  }

  get ipsec(): HostIpsec {
    return this.#once("ipsec", readHostIpsec)
  }

  /** Returns the traffic control filters of a host link that may drop or redirect packets. */
  trafficFilters(link: NodeLink): TrafficFilter[] {
    return this.#once(`filters ${link.index}`, () => readTrafficFilters([link]))
  }

  link(which: string | Ifindex): Link | undefined {
    return this.#once(`link ${typeof which} ${which}`, () => findLink(this.#route, which))
  }

  layoutOf(table: Table, set: string): SetLayout | undefined {
    const socket = this.#filter?.socket
    return socket && this.#once(`set ${table.family} ${table.name} ${set}`, () => findSetLayout(socket, table, set))
  }

  elementOf(table: Table, name: string, layout: SetLayout, key: Uint8Array): Element | undefined {
    const socket = this.#filter?.socket
    const set = rawSet(table, name, layout)
    const what = `element ${table.family} ${table.name} ${name} ${key.toHex()}`
    if (!socket) return undefined
    return this.#once(what, () => getElement(socket, set, [key])) ?? this.#others(set)
  }

  mayHave(table: Table, name: string, layout: SetLayout, bits: Bits): boolean {
    const socket = this.#filter?.socket
    const set = rawSet(table, name, layout)
    if (!socket || layout.isInterval || this.#others(set)) return true
    const all = this.#once(`elements ${table.family} ${table.name} ${name}`, () => findElements(socket, set))
    return all === undefined || all.elements.some(({ key: [key] }) => key && mayBe(bits, key))
  }

  /** Returns the catch-all element of a set. */
  #others(set: NamedSet): Element | undefined {
    const socket = this.#filter?.socket
    const { table, name } = set
    return socket && this.#once(`${table.family} ${table.name} ${name} *`, () => findCatchAll(socket, set))
  }

  addressType(ip: Uint8Array, link?: string): number {
    const { isMulticast, isBroadcast } = groupOf(ip)
    if (isMulticast) return RTN.multicast
    if (isBroadcast) return RTN.broadcast
    const route = this.routeOf({ dst: ip })
    if (typeof route === "string" || route.type === undefined) return RTN.unicast
    if (route.type !== RTN.local && route.type !== RTN.broadcast && route.type !== RTN.anycast) return RTN.unicast
    return link === undefined || this.#hasAddress(link, ip) ? route.type : RTN.unicast
  }

  linkTowards(ip: Uint8Array, mark: number | undefined): Pick<Link, "index" | "name"> | undefined {
    const route = this.routeOf({ dst: ip, mark })
    if (typeof route === "string" || route.type !== RTN.unicast || route.index === undefined) return undefined
    return this.link(route.index)
  }

  addressOn(link: string, like: Uint8Array): Uint8Array | undefined {
    return this.#addresses().find((one) => one.name === link && one.ip.length === like.length)?.ip
  }

  interfaceOf(name: string): InterfaceNumbers | undefined {
    return interfaceNumbers(this.link(name))
  }

  /** Returns the neighbor entry of an address on a link, or undefined if the host has no such entry. */
  neighbour(index: Ifindex | undefined, ip: Uint8Array): Neighbour | undefined {
    const all = this.#once("neighbours", () => listNeighbours(this.#route))
    return all.find((one) => one.index === index && sameBytes(one.ip, ip))
  }

  isRecent(list: string, ip: Uint8Array): boolean | undefined {
    const text = readIfThere(`/proc/net/xt_recent/${list}`)
    return text?.split("\n").some((line) => line.startsWith(`src=${formatIp(ip)} `))
  }

  #hasAddress(link: string, ip: Uint8Array): boolean {
    return this.#addresses().some((one) => one.name === link && formatIp(one.ip) === formatIp(ip))
  }

  #addresses(): { readonly name: string | undefined; readonly ip: Uint8Array }[] {
    return this.#once("addresses", () =>
      listAddresses(this.#route).map(({ index, ip }) => ({ name: this.link(index)?.name, ip })),
    )
  }

  #once<T>(what: string, ask: () => T): T {
    if (!this.#answers.has(what)) this.#answers.set(what, ask())
    return this.#answers.get(what) as T
  }

  [Symbol.dispose](): void {
    this.#route[Symbol.dispose]()
    this.#filter?.[Symbol.dispose]()
  }
}

export function interfaceNumbers(link: Link | undefined): InterfaceNumbers | undefined {
  const { group = 0, linkInfo } = link?.attributes ?? {}
  return link && { index: link.index, type: link.type, group, kind: linkInfo?.kind ?? "" }
}

/** A set whose keys and values are bytes. */
function rawSet(table: Table, name: string, { keyLength, valueLength, hasVerdicts }: SetLayout): NamedSet {
  const raw = (size: number) => ({ name: "raw", id: 0, size, byteOrder: 0, print: String }) as const
  return {
    table,
    name,
    key: [raw(keyLength)],
    ...(valueLength > 0 ? { value: [raw(valueLength)] } : {}),
    ...(hasVerdicts ? { verdicts: true as const } : {}),
  }
}

/** Reports whether an address is multicast (224.0.0.0/4 and ff00::/8) or 255.255.255.255. */
function groupOf(ip: Uint8Array): { isMulticast: boolean; isBroadcast: boolean } {
  const [first = 0] = ip
  const isIpv4 = ip.length === 4
  return {
    isMulticast: isIpv4 ? first >> 4 === 0xe : first === 0xff,
    isBroadcast: isIpv4 && ip.every((byte) => byte === 0xff),
  }
}

export function readIfThere(path: string): string | undefined {
  try {
    return readTextFile(path)
  } catch {
    return undefined
  }
}
