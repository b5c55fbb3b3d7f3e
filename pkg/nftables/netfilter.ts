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

/** The methods of a netlink socket that this package uses. */
export type Netfilter = Pick<NetlinkSocket, "fd" | "get" | "dump" | "transact">

/**
 * Opens a socket to the packet filter of the thread's namespace. In a container's namespace, give it a budget. Throws
 * `EPROTONOSUPPORT` on a kernel without nf_tables.
 */
export function openNetfilter(budget?: Budget): NetlinkSocket {
  return new NetlinkSocket(NETLINK_NETFILTER, 0, undefined, budget)
}

/** Returns a request about a table: struct nfgenmsg, then attributes. */
export function tableRequest({ family }: Table, type: number, what: string, attributes: Uint8Array): Request {
  return { type, what, payload: concat([netfilterHeader(familyNumber[family]), attributes]) }
}

/** Returns the attributes of an answer, which follow struct nfgenmsg. */
export function attributesOf({ payload }: Message): Uint8Array {
  return payload.subarray(NFGENMSG_SIZE)
}

/** Returns the result of `read`, or undefined if the table, chain, set or element does not exist. */
export function ifThere<T>(read: () => T): T | undefined {
  return unlessErrno(read, "ENOENT")
}

/** Returns the smallest offset from `from` on at which one of `needles` occurs; Infinity if none does. */
export function placeOf(needles: readonly Uint8Array[], bytes: Uint8Array, from = 0): number {
  let first = Number.POSITIVE_INFINITY
  for (const needle of needles) {
    const place = findBytes(bytes, needle, from)
    if (place >= 0 && place < first) first = place
  }
  return first
}
