/**
 * Netlink: tables of attributes that are codec and type in one, the socket, and one function for each rtnetlink
 * request.
 *
 * @example
 * using host = RouteSocket.open()
 * addLink(host, { kind: "bridge", name: "cni0", up: true })
 * addAddress(host, getLink(host, "cni0"), { ip: new Uint8Array([10, 1, 0, 1]), prefix: 16 })
 */
export * from "./addresses.ts"
export {
  type Attributes,
  align,
  appendAttribute,
  attribute,
  attrs,
  forEachAttribute,
  HEADER,
  listOf,
  readAttributes,
  typeAt,
  type UnknownAttribute,
} from "./attrs.ts"
export * from "./bridge-ports.ts"
export { Budget } from "./budget.ts"
export type { Request } from "./channel.ts"
export * from "./codec.ts"
export { executeAll, type Refusal, throwFirst } from "./execute-all.ts"
export { dumpFamily, isNoFamily, noIpv6 } from "./family.ts"
export * from "./filters.ts"
export * from "./integers.ts"
export {
  type Ipsec,
  type IpsecDirection,
  type IpsecPolicy,
  type IpsecState,
  type IpsecTemplate,
  listIpsec,
  readIpsec,
} from "./ipsec.ts"
export { deleteEach, deleteLinks } from "./link-batch.ts"
export * from "./link-changes.ts"
export * from "./link-table.ts"
export * from "./links.ts"
export { isLost } from "./lost-answers.ts"
export {
  type Message,
  NetlinkError,
  NFGENMSG_SIZE,
  NLM_F_ACK,
  NLM_F_APPEND,
  NLM_F_CREATE,
  NLM_F_DUMP,
  NLM_F_EXCL,
  NLM_F_REPLACE,
  NLM_F_REQUEST,
  netfilterHeader,
} from "./message.ts"
export { listNeighbourTables, type NeighbourTable } from "./neighbour-tables.ts"
export * from "./neighbours.ts"
export type { NextHop } from "./next-hops.ts"
export { encoded, type Output } from "./output.ts"
export * from "./qdiscs.ts"
export { askRoute, type RouteQuestion, type RouteRefusal } from "./route-get.ts"
export { assignNsid, findNsid, forEachNsid, listNsids, RouteGroup, RouteSocket } from "./route-socket.ts"
export * from "./routes.ts"
export { listRoutingTables } from "./routing-tables.ts"
export * from "./rules.ts"
export { NETLINK_NETFILTER, NETLINK_ROUTE, NetlinkSocket } from "./socket.ts"
export * from "./traffic-table.ts"
