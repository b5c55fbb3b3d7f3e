/**
 * Connection tracking over netlink, without the program `conntrack`: deletes tracked connections whose translation is
 * out of date.
 *
 * @example
 * using socket = openNetfilter()
 * flushConntrack(socket, { family: AF_INET, protocol: 17, ports: [53] }, ({ reply }) => sameBytes(reply.source, gone))
 */
export { type ConntrackEntry, type ConntrackSocket, flushConntrack, flushUntranslated, type Tuple } from "./flush.ts"
