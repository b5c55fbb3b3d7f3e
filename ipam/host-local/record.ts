import type { Owner } from "./owner.ts"

/** What the index knows about an owner beyond what the files of the reservations say. */
export interface LeaseRecord {
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

/** More than this does not fit into a symbolic link. */
const limit = 4000

/** The name of an owner's record: "CONTAINER@INTERFACE", or a hash where that is no file name. Never an IP address. */
export function recordName({ containerId, ifName }: Owner): string {
  const plain = `${containerId}@${ifName}`
  if (/^[\w.@-]{1,255}$/.test(plain)) return plain
  return `@${new Bun.CryptoHasher("sha256").update(plain).digest("hex")}`
}

/** The owner in a record's name, unless it is a hash. */
export function ownerOf(name: string): Owner | undefined {
  const at = name.indexOf("@")
  return at > 0 ? { containerId: name.slice(0, at), ifName: name.slice(at + 1) } : undefined
}

/** A record as the text of a symbolic link: addresses, boot, times, namespace and its path, with blanks between. */
export function formatRecord({ addresses, bootId, written, netns }: LeaseRecord): string {
  const text = `${addresses.join(",")} ${bootId} ${written.join(",")}`
  const whole = netns ? `${text} ${netns.identity} ${netns.path}` : text
  return whole.length <= limit ? whole : text
}

/** Reads a record; `undefined` for anything else. */
export function parseRecord(text: string): LeaseRecord | undefined {
  const [, list, bootId, written, identity, path] = /^(\S+) (\S+) ([\d,]+)(?: (\S+) (.+))?$/s.exec(text) ?? []
  if (list === undefined || bootId === undefined || written === undefined) return undefined
  const record = { addresses: list.split(","), bootId, written: written.split(",").map(BigInt) }
  return identity === undefined || path === undefined ? record : { ...record, netns: { path, identity } }
}
