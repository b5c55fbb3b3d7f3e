/**
 * Connection tracking over netlink, without the program `conntrack`: forgets flows whose translation is out of date.
 *
 * @example
 * using socket = openNetfilter()
 * deleteFlows(socket, { family: "ip", protocol: 17, ports: [53] }, ({ reply }) => sameBytes(reply.source, gone))
 */
export { type Conntrack, deleteFlows, type Flow } from "./flows.ts"
export type { Tuple } from "./tuple.ts"
