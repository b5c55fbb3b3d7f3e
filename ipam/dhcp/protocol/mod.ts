/**
 * DHCP without a network: packets as bytes, and a client as a function from what happens to what is to be done.
 *
 * @example
 * let step = advance(createClient(config), { kind: "start" }, moment)
 * for (const frame of step.send) socket.send(frame)
 */
export { advance, createClient } from "./client.ts"
export { socketFilter } from "./filter.ts"
export { makeDuid, usualRequests6 } from "./message6.ts"
export { encodeUserClass } from "./options4.ts"
export type * from "./types.ts"
