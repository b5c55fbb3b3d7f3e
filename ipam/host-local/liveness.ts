import { isErrno, SyscallError } from "../../pkg/libc/mod.ts"
import { type Files, readSmall, type StorePlace } from "./files.ts"
import type { LeaseRecord, NamespaceRecord } from "./records.ts"

/** Returns the ID of this boot. A container from another boot no longer exists. */
export function readBootId(files: Files): string {
  return readSmall(files, "/proc/sys/kernel/random/boot_id").trim()
}

/** Reports whether a recorded namespace is still at its path. Returns true if stat(2) fails although it may exist. */
export function namespaceExists(files: Files, { path, identity }: NamespaceRecord): boolean {
  try {
    const { device, inode } = files.stat(path)
    return identity === `${device}:${inode}`
  } catch (error) {
    return !isErrno(error, "ENOENT", "ENOTDIR")
  }
}

/** The state of an owner. Any owner may get the addresses of a dead owner, only the same owner those of a lost one. */
export type Liveness = "alive" | "lost" | "dead"

/**
 * Returns the state of a reservation's owner, as far as it can be proved.
 *
 * - "dead": the reservation is from an earlier boot, and the owner's namespace does not exist.
 * - "lost": the namespace is no longer at its path, or the reservation is from an earlier boot. A program might still
 *   have the namespace open, so only a new container of the same name may replace the owner.
 * - "alive": anything else. Also if the files are newer than the record, or if other hosts use the store.
 *
 * `isHere` says whether the namespace exists.
 */
export function livenessOf(
  { files, directory, bootId }: StorePlace,
  record: LeaseRecord,
  isHere = record.netns !== undefined && namespaceExists(files, record.netns),
): Liveness {
  const isOld = record.bootId !== bootId
  if (!isOld && (isHere || !record.netns)) return "alive"
  if (!isUnchanged(files, directory, record) || isShared(files, directory)) return "alive"
  return isOld && !isHere ? "dead" : "lost"
}

/** Reports whether the reservation is the recorded one, rather than a later reservation of the same owner. */
function isUnchanged(files: Files, directory: string, { addresses, written }: LeaseRecord): boolean {
  try {
    return addresses.every((address, at) => files.stat(`${directory}/${address}`).modified === written[at])
  } catch (error) {
    if (isErrno(error, "ENOENT")) return false
    throw error
  }
}

/**
 * Reports whether the owner of a reservation ended with an earlier boot, for example by a power cut. If so, a torn
 * reservation of that boot is free. Returns false if other hosts use the store, because their boots are unknown.
 */
export function isEnded({ files, directory, bootId }: StorePlace, { bootId: recorded, netns }: LeaseRecord): boolean {
  const isHere = netns !== undefined && namespaceExists(files, netns)
  return recorded !== bootId && !isHere && !isShared(files, directory)
}

/** Reports whether other hosts, with their own boots and namespaces, can write to the directory. */
export function isShared(files: Files, directory: string): boolean {
  try {
    return !ownTypes.has(files.fileSystemType(directory))
  } catch (error) {
    if (error instanceof SyscallError) return true
    throw error
  }
}

/**
 * Local file systems, by their numbers in <linux/magic.h>. After a power cut a file on them is complete, empty, or ends
 * with zeros. It never contains older data of its disk blocks.
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
  0x794c7630, // overlay, which writes to one of the others
])

/**
 * Reports whether the addresses of an owner may be given to others, because the owner is dead. Returns false for
 * reservations in the old format, which are for all interfaces of a container; only GC releases these.
 */
export function isReclaimable(place: StorePlace, record: LeaseRecord): boolean {
  const isOld = record.bootId !== place.bootId
  return isOld && record.owner.ifName !== "" && livenessOf(place, record) === "dead"
}
