import { flushConntrack } from "../../../pkg/conntrack/mod.ts"
import { findInKernel } from "../../../pkg/iptables/mod.ts"
import { type Fd, SyscallError } from "../../../pkg/libc/mod.ts"
import {
  findLink,
  findQdisc,
  findRoute,
  type Ifindex,
  linkData,
  listAddresses,
  listFilters,
  listHtbClasses,
  listLinks,
  listNeighbours,
  listNsids,
  listPortVlans,
  listRoutes,
  listRules as listRoutingRules,
  listRoutingTables,
  NETLINK_NETFILTER,
  NETLINK_ROUTE,
  NetlinkSocket,
  qdiscOptions,
} from "../../../pkg/netlink/mod.ts"
import { KernelTransport, type Transport } from "../../../pkg/netlink/transport.ts"
import {
  dataTypes,
  findBase,
  findElements,
  findSetLayout,
  getElement,
  hasNftables,
  listBaseChains,
  listChains,
  listComments,
  listRules,
  listTables,
  type NamedSet,
  sampleElements,
} from "../../../pkg/nftables/mod.ts"
import { AF_INET, AF_INET6 } from "../../../pkg/types/mod.ts"

const lo = { index: 1 as Ifindex, name: "lo" }
const table = { family: "ip", name: "garbage" } as const
/** The sets of that table, which `furnish` creates. */
const sets: readonly NamedSet[] = [
  { table, name: "sources", key: [dataTypes.ipv4] },
  { table, name: "ports", key: [dataTypes.protocol, dataTypes.port], value: [dataTypes.ipv4, dataTypes.port] },
]

interface Asking {
  readonly protocol: number
  readonly ask: (socket: NetlinkSocket) => unknown
}

const route = (ask: Asking["ask"]): Asking => ({ protocol: NETLINK_ROUTE, ask })
const netfilter = (ask: Asking["ask"]): Asking => ({ protocol: NETLINK_NETFILTER, ask })

/** Every request that plugins send to the kernel. `ask` sends the request and decodes the answer. */
export const questions: Readonly<Record<string, Asking>> = {
  "list links": route((socket) =>
    listLinks(socket).map((link) => [link.attributes.unknown, linkData(link, "bridge"), linkData(link, "veth")]),
  ),
  "find a link": route((socket) => findLink(socket, "br-garbage")),
  "list VLANs of ports": route((socket) => listPortVlans(socket)),
  "list nsids": route(listNsids),
  "list addresses": route((socket) => listAddresses(socket)),
  "list routes of IPv4": route((socket) => listRoutes(socket, AF_INET)),
  "list routes of IPv6": route((socket) => listRoutes(socket, AF_INET6)),
  "list routing tables": route((socket) => [...listRoutingTables(socket, AF_INET)]),
  "find a route": route((socket) => findRoute(socket, Uint8Array.of(10, 9, 0, 1))),
  "list routing rules": route((socket) => [listRoutingRules(socket, AF_INET), listRoutingRules(socket, AF_INET6)]),
  "list neighbours": route((socket) => [listNeighbours(socket, AF_INET), listNeighbours(socket, AF_INET6)]),
  "find a qdisc": route((socket) => {
    const found = findQdisc(socket, lo, 0xffffffff)
    return found && (["tbf", "htb"] as const).map((kind) => qdiscOptions(found, kind))
  }),
  "list classes": route((socket) => listHtbClasses(socket, lo)),
  "list filters": route((socket) => listFilters(socket, lo, 0x10000)),
  "ask for nf_tables": netfilter(hasNftables),
  "list tables": netfilter(listTables),
  "list base chains": netfilter(listBaseChains),
  "list chains": netfilter((socket) => [
    listChains(socket, table),
    findBase(socket, { table, name: "forward" })?.policy,
  ]),
  "list rules": netfilter((socket) => listRules(socket, { table }).map((rule) => JSON.stringify(rule.comment))),
  "list comments": netfilter((socket) => listComments(socket, table)),
  "find elements": netfilter((socket) => sets.map((set) => findElements(socket, set)?.elements)),
  "get an element": netfilter((socket) =>
    sets.slice(0, 1).map((set) => getElement(socket, set, [Uint8Array.of(10, 9, 0, 1)])),
  ),
  "sample elements": netfilter((socket) => sampleElements(socket, sets[0] as NamedSet, "lab/pod/eth0")),
  "find a set": netfilter((socket) => findSetLayout(socket, table, "sources")),
  "find rules of iptables": netfilter((socket) =>
    findInKernel(socket, AF_INET, "nat", { chains: /^CNI-/, parents: ["POSTROUTING"] }),
  ),
  "flush conntrack": netfilter((socket) =>
    flushConntrack(socket, { family: AF_INET, protocol: 17, ports: [5353] }, () => false),
  ),
}

/** Sends a request to the kernel, and returns the datagrams of its answer for a case. */
export function record(name: string): Uint8Array[] {
  const { protocol, ask } = questionOf(name)
  const answers: Uint8Array[] = []
  const kernel = new KernelTransport(protocol)
  const transport: Transport = {
    fd: kernel.fd,
    firstSequence: 0,
    send(datagram) {
      answers.push(new Uint8Array()) // an empty part marks the next request
      kernel.send(datagram)
    },
    get isWide() {
      return kernel.isWide
    },
    receive(widen) {
      const datagram = kernel.receive(widen)
      answers.push(datagram.slice())
      return datagram
    },
    waitForNext: (timeoutMs) => kernel.waitForNext(timeoutMs),
    renew: () => kernel.renew(),
    leave: () => kernel.leave(),
    [Symbol.dispose]: () => kernel[Symbol.dispose](),
  }
  using socket = new NetlinkSocket(protocol, 0, transport)
  ask(socket)
  return answers
}

/** Sends a request that gets these answers instead of the kernel's. */
export function replay(name: string, answers: readonly Uint8Array[]): void {
  const { protocol, ask } = questionOf(name)
  let at = 0
  const waiting: Uint8Array[] = []
  const transport: Transport = {
    fd: -1 as Fd,
    firstSequence: 0,
    send() {
      if (answers[at]?.length === 0) at++
      for (let next = answers[at]; next && next.length > 0; next = answers[++at]) waiting.push(next)
    },
    isWide: true,
    receive() {
      const next = waiting.shift()
      if (next === undefined) throw new SyscallError("recv", 11) // EAGAIN
      return next.slice()
    },
    waitForNext: () => new Uint8Array(),
    renew: () => true,
    leave: () => {},
    [Symbol.dispose]: () => {},
  }
  using socket = new NetlinkSocket(protocol, 0, transport)
  ask(socket)
}

function questionOf(name: string): Asking {
  const found = questions[name]
  if (!found) throw new Error(`No plugin asks to ${name}`)
  return found
}
