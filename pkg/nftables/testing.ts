/** Values for the tests of this room and of those above. For tests only: the door does not export it. */
import type { Fd } from "../libc/mod.ts"
import { type Message, NetlinkError } from "../netlink/mod.ts"
import type { Netfilter } from "./netfilter.ts"

export * from "./attributes.ts"
export { joinParts } from "./data-types.ts"
export { dataAttributes, expressionTables } from "./expressions.ts"
export { commentUserdata, elementUserdata } from "./userdata.ts"

/** A kernel that refuses everything, except for the given requests. */
export function refusing(errno: string, agree: Partial<Netfilter> = {}): Netfilter {
  const refuse = (): never => {
    throw new NetlinkError("request", errno)
  }
  return { fd: -1 as Fd, get: refuse, dump: refuse, transact: refuse, ...agree }
}

/** A kernel's answer to a request for the generation of its rule set. */
export const answerGeneration: Netfilter["get"] = (_, read) => {
  const payload = Uint8Array.of(0, 0, 0, 0, 8, 0, 1, 0, 0, 0, 0, 1)
  return read({ type: 0, flags: 0, sequence: 0, payload })
}

/** One message of an answer, with this payload: hex digits, with any spaces. */
export function answer(payload: string): Message {
  return { type: 0, flags: 0, sequence: 0, payload: Uint8Array.fromHex(payload.replace(/\s/g, "")) }
}
