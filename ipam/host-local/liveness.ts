import { isErrno, SyscallError } from "../../pkg/libc/mod.ts"
import { type Files, readSmall, type StorePlace } from "./files.ts"
import type { LeaseRecord, NamespaceRecord } from "./records.ts"

/** The id of this boot, which nothing that runs survives. */
export function readBootId(files: Files): string {
  return readSmall(files, "/proc/sys/kernel/random/boot_id").trim()
}

/** Whether the path of a recorded namespace still leads to it. An unreadable path counts as if it did. */
export function namespaceExists(files: Files, { path, identity }: NamespaceRecord): boolean {
  try {
    const { device, inode } = files.stat(path)
    return identity === `${device}:${inode}`
  } catch (error) {
    return !isErrno(error, "ENOENT", "ENOTDIR")
  }
}

/** The state of an owner: dead owners' addresses may be given away, lost ones' to the same owner again. */
export type Liveness = "alive" | "lost" | "dead"

/**
 * The state of a reservation's owner, as far as it can be proved.
 *
 * - "dead": it was made in an earlier boot, and its namespace is not there either.
 * - "lost": its namespace is gone from where it was, or it was made in an earlier boot: another container of that name
 *   takes its place. Someone else might still hold the namespace open.
 * - "alive": anything else, also when the files were written after the record was, or when other hosts share the store.
 */
export function livenessOf({ files, directory, bootId }: StorePlace, record: LeaseRecord): Liveness {
  const isOld = record.bootId !== bootId
  const isHere = record.netns !== undefined && namespaceExists(files, record.netns)
  if (!isOld && (isHere || !record.netns)) return "alive"
  if (!isUnchanged(files, directory, record) || isShared(files, directory)) return "alive"
  return isOld && !isHere ? "dead" : "lost"
}

/** Whether the reservation is the very one that the record is about, not a later one of the same owner. */
function isUnchanged(files: Files, directory: string, { addresses, written }: LeaseRecord): boolean {
  try {
    return addresses.every((address, at) => files.stat(`${directory}/${address}`).modified === written[at])
  } catch (error) {
    if (isErrno(error, "ENOENT")) return false
    throw error
  }
}

/**
 * Whether the owner of a reservation has ended with an earlier boot, as by a power cut: a torn reservation of that boot
 * is free. False when other hosts use the store, whose boots are unknown.
 */
export function isEnded({ files, directory, bootId }: StorePlace, { bootId: recorded, netns }: LeaseRecord): boolean {
  const isHere = netns !== undefined && namespaceExists(files, netns)
  return recorded !== bootId && !isHere && !isShared(files, directory)
}

/** Whether other hosts, with boots and namespaces of their own, can write to the directory. */
export function isShared(files: Files, directory: string): boolean {
  try {
    return !ownTypes.has(files.fileSystemType(directory))
  } catch (error) {
    if (error instanceof SyscallError) return true
    throw error
  }
}

/**
 * File systems of one host, by their numbers in <linux/magic.h>, which have a file whole after a power cut, or empty, or with
 * zeros at its end: never with what was on its place before.
 */
const ownTypes: ReadonlySet<number> = new Set([
  0xef53, // ext2, ext3, ext4
  0x58465342, // xfs
  0x9123683e, // btrfs
  0xf2f52010, // f2fs
  0xca451a4e, // bcachefs
  0x2fc12fc1, // zfs
  0x24051905, // ubifs
  0x01021994, // tmpfs
  0x858458f6, // ramfs
  0x794c7630, // overlay: what is written goes to one of the others
])

/**
 * Whether the addresses of an owner may be given to others: it is known to be dead. Reservations in the old form, for a
 * whole container, are left to GC.
 */
export function isReclaimable(place: StorePlace, record: LeaseRecord): boolean {
  return record.owner.ifName !== "" && livenessOf(place, record) === "dead"
}
