import * as fs from "node:fs"

/** Calls for which Node needs a path instead of a descriptor, or another unit than nanoseconds. */

/** <asm-generic/errno-base.h> */
const EINVAL = 22

/** The entries that `readEntries` has not returned yet, by the descriptor of the directory. */
const untold = new Map<number, Uint8Array[]>()

/** Discards the remaining entries of a directory. Must be called when the directory's descriptor is closed. */
export function forgetEntries(fd: number): void {
  untold.delete(fd)
}

/** Writes entries as struct linux_dirent64: ino 8, off 8, reclen 2, type 1, name. Returns the length; 0 at the end. */
export function readEntries(fd: number, into: Uint8Array): number {
  fs.fstatSync(fd) // throws EBADF for an invalid descriptor
  const entries = untold.get(fd) ?? entriesOf(`/proc/self/fd/${fd}/`)
  let length = 0
  for (let [entry] = entries; entry && length + entry.length <= into.length; [entry] = entries) {
    into.set(entry, length)
    length += entry.length
    entries.shift()
  }
  if (length === 0 && entries.length > 0) return -EINVAL
  untold.set(fd, entries)
  return length
}

/** Returns a directory's entries with type DT_UNKNOWN: Bun cannot return names as bytes together with types. */
function entriesOf(path: string): Uint8Array[] {
  const names: Uint8Array[] = fs.readdirSync(path, { encoding: "buffer" })
  return [Buffer.from("."), Buffer.from(".."), ...names].map(encoded)
}

function encoded(name: Uint8Array): Uint8Array {
  const bytes = new Uint8Array((19 + name.length + 8) & ~7)
  new DataView(bytes.buffer).setUint16(16, bytes.length, true)
  bytes.set(name, 19)
  return bytes
}

const UTIME_OMIT = 0x3ffffffen

/** Sets the times of a file from two struct timespec. Node has a resolution of microseconds at best. */
export function setTimes(path: string, times: Uint8Array): number {
  const [accessS = 0n, accessNs = 0n, modificationS = 0n, modificationNs = 0n] = new BigInt64Array(
    times.slice(0, 32).buffer,
  )
  if ([accessNs, modificationNs].some((ns) => (ns < 0n || ns >= 1_000_000_000n) && ns !== UTIME_OMIT)) return -EINVAL
  const found = fs.statSync(path)
  const time = (seconds: bigint, ns: bigint, now: number) =>
    ns === UTIME_OMIT ? now / 1000 : Number(seconds) + Number(ns / 1000n) / 1e6
  fs.utimesSync(path, time(accessS, accessNs, found.atimeMs), time(modificationS, modificationNs, found.mtimeMs))
  return 0
}
