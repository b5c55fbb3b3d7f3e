import { findBytes } from "../engine/mod.ts"
import { unlessErrno } from "../libc/mod.ts"
import {
  type Budget,
  concat,
  type Message,
  NETLINK_NETFILTER,
  NetlinkSocket,
  NFGENMSG_SIZE,
  netfilterHeader,
  type Request,
} from "../netlink/mod.ts"
import { familyNumber } from "./attributes.ts"
import type { Table } from "./rule-set.ts"

/** What this room needs of a netlink socket. */
export type Netfilter = Pick<NetlinkSocket, "fd" | "get" | "dump" | "transact">

/**
 * Opens a socket to the packet filter of the thread's namespace, with a budget where that is a container's. Throws `EPROTONOSUPPORT` when
 * the kernel has none.
 */
export function openNetfilter(budget?: Budget): NetlinkSocket {
  return new NetlinkSocket(NETLINK_NETFILTER, 0, undefined, budget)
}

/** Returns a message about a table: struct nfgenmsg, and attributes. */
export function tableRequest({ family }: Table, type: number, what: string, attributes: Uint8Array): Request {
  return { type, what, payload: concat([netfilterHeader(familyNumber[family]), attributes]) }
}

/** Returns the attributes of an answer, which follow its struct nfgenmsg. */
export function attributesOf({ payload }: Message): Uint8Array {
  return payload.subarray(NFGENMSG_SIZE)
}

/** Returns what `read` returns; undefined when the kernel knows no such table, chain, set or element. */
export function ifThere<T>(read: () => T): T | undefined {
  return unlessErrno(read, "ENOENT")
}

/** Returns where the first of `needles` begins in bytes, at `from` or behind it; Infinity where there is none. */
export function placeOf(needles: readonly Uint8Array[], bytes: Uint8Array, from = 0): number {
  let first = Number.POSITIVE_INFINITY
  for (const needle of needles) {
    const place = findBytes(bytes, needle, from)
    if (place >= 0 && place < first) first = place
  }
  return first
}
