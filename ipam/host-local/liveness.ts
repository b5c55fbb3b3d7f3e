import { isErrno, readTextFile } from "../../pkg/libc/mod.ts"
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

/** What is known of an owner: dead owners' addresses may be given away, lost ones' to the same owner again. */
export type Liveness = "alive" | "lost" | "dead"

/**
 * What can be proved about the owner of a reservation.
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

/** Whether other hosts, with boots and namespaces of their own, can write to the directory. */
function isShared(files: Files, directory: string): boolean {
  return isSharedMount(readTextFile("/proc/self/mountinfo"), files.stat(directory).device)
}

/** Whether a device, as `stat` has it, is mounted from elsewhere, by the lines of proc_pid_mountinfo(5). */
export function isSharedMount(mountinfo: string, device: string): boolean {
  // "36 35 0:31 / /mnt rw,noatime - nfs4 server:/export rw"
  const mount = mountinfo.split("\n").find((line) => line.split(" ")[2] === device)
  return /^(?:9p|afs|beegfs|ceph|cifs|coda|fuse|gfs2|glusterfs|lustre|ncpfs|nfs4?|ocfs2|smb3?|smbfs|virtiofs)\b/.test(
    mount?.split(" - ")[1] ?? "",
  )
}

/**
 * Whether the addresses of an owner may be given to others: it is known to be dead. Reservations in the old form, for a
 * whole container, are left to GC.
 */
export function isReclaimable(place: StorePlace, record: LeaseRecord): boolean {
  return record.owner.ifName !== "" && livenessOf(place, record) === "dead"
}
