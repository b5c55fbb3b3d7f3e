import { crc32 } from "../../pkg/engine/mod.ts"
import type { Owner } from "./owner.ts"

/** What the index knows about an owner beyond what the files of the reservations say. */
export interface LeaseRecord {
  readonly owner: Owner
  /** As text, in the order of the range sets. */
  readonly addresses: readonly string[]
  /** The boot in which the reservation was made, or was first seen when another program made it. */
  readonly bootId: string
  /** When the file of each address was written, in nanoseconds since 1970: tells them from later ones. */
  readonly written: readonly bigint[]
  /** The container's network namespace; absent when another program made the reservation. */
  readonly netns?: NamespaceRecord
}

/** A namespace by its path and by what was found there. */
export interface NamespaceRecord {
  readonly path: string
  /** "device:inode" of the namespace. */
  readonly identity: string
}

/** What the lines of an owner are found by: "CONTAINER@INTERFACE". */
export function ownerKey({ containerId, ifName }: Owner): string {
  return `${containerId}@${ifName}`
}

/**
 * A record as a line of text: owner, addresses, boot, times, namespace and its path, with blanks between, and before all
 * a checksum, so that a line of which only a part was written is none.
 */
export function formatRecord({ owner, addresses, bootId, written, netns }: LeaseRecord): string {
  const fields = [ownerKey(owner), addresses.join(","), bootId, written.join(",")]
  if (netns && !netns.path.includes("\n")) fields.push(netns.identity, netns.path)
  const text = fields.join(" ")
  return `${checksum(text)} ${text}`
}

/** Reads a line; `undefined` when it is no record, or not whole. */
export function parseRecord(line: string): LeaseRecord | undefined {
  const [sum = "", key = "", addresses, bootId, written, identity, ...path] = line.split(" ")
  if (written === undefined || sum !== checksum(line.slice(sum.length + 1))) return undefined
  const at = key.indexOf("@")
  return {
    owner: { containerId: key.slice(0, at), ifName: key.slice(at + 1) },
    addresses: addresses?.split(",") ?? [],
    bootId: bootId ?? "",
    written: written.split(",").map(BigInt),
    ...(identity !== undefined && { netns: { identity, path: path.join(" ") } }),
  }
}

function checksum(text: string): string {
  return crc32(text).toString(16).padStart(8, "0")
}
