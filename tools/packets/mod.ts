/**
 * Evaluates the path of one packet through a node: links, routes, and packet filter rules. `trace` prints the path, and
 * `doctor` evaluates the packets that each network needs. Reads the node's state without changing it, and sends no
 * packet.
 *
 * @example
 * const { hops } = walk({ node, attachments, attachment, filter: readPacketFilter() }, sandbox, destination)
 */

export { Choices } from "./choices.ts"
export { evaluate } from "./evaluate.ts"
export { has } from "./facts.ts"
export { formatPlace } from "./filter.ts"
export { type Inbound, walkInbound } from "./inbound.ts"
export { HostKernel, RTN } from "./kernel.ts"
export { type Destination, NO_LABELS, type Packet, u32Bits } from "./packet.ts"
export type { Hop, Stop, Walk } from "./packet-path.ts"
export { closedInside, dropsAlso, type SharedState, share } from "./stops.ts"
export type { NodeState } from "./trip.ts"
export { walk, walkFromHost } from "./walk.ts"
