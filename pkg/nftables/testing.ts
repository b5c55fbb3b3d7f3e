/** Helpers for the tests of this package and of packages that use it. `mod.ts` does not export them. */
import type { Fd } from "../libc/mod.ts"
import { type Message, NetlinkError } from "../netlink/mod.ts"
import type { Netfilter } from "./netfilter.ts"

export * from "./attributes.ts"
export { joinParts } from "./data-types.ts"
export { dataAttributes, expressionTables } from "./expressions.ts"
export { commentUserdata, elementUserdata } from "./userdata.ts"

/** Returns a kernel that refuses every request with this errno, except those in `agree`. */
export function refusing(errno: string, agree: Partial<Netfilter> = {}): Netfilter {
  const refuse = (): never => {
    throw new NetlinkError("request", errno)
  }
  return { fd: -1 as Fd, get: refuse, dump: refuse, transact: refuse, ...agree }
}

export const answerGeneration: Netfilter["get"] = (_, read) => {
  const payload = Uint8Array.of(0, 0, 0, 0, 8, 0, 1, 0, 0, 0, 0, 1)
  return read({ type: 0, flags: 0, sequence: 0, payload })
}

/** Returns a message with this payload: hex digits and white space. */
export function answer(payload: string): Message {
  return { type: 0, flags: 0, sequence: 0, payload: Uint8Array.fromHex(payload.replace(/\s/g, "")) }
}
