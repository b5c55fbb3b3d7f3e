import type { BigIntStats, BigIntStatsFs } from "node:fs"

/** Functions that write the structs of statx(2) and statfs(2) from Node's values. */

/** The functions for the major and minor part of a device number, <sys/sysmacros.h>. */
const major = (device: bigint) => Number(((device >> 8n) & 0xfffn) | ((device >> 32n) & 0xfffff000n))
const minor = (device: bigint) => Number((device & 0xffn) | ((device >> 12n) & 0xffffff00n))

/** Writes struct statx of 256 bytes, <linux/stat.h>. */
export function writeStat(found: BigIntStats, into: Uint8Array): 0 {
  const view = new DataView(into.buffer, into.byteOffset, 256)
  const word = (at: number, value: number) => view.setUint32(at, value, true)
  const long = (at: number, value: bigint) => view.setBigUint64(at, value, true)
  const time = (at: number, nanoseconds: bigint) => {
    const rest = ((nanoseconds % 1_000_000_000n) + 1_000_000_000n) % 1_000_000_000n
    view.setBigInt64(at, (nanoseconds - rest) / 1_000_000_000n, true)
    word(at + 8, Number(rest))
  }
  into.fill(0, 0, 256)
  word(0, 0x7ff) // STATX_BASIC_STATS
  word(4, Number(found.blksize))
  word(16, Number(found.nlink))
  word(20, Number(found.uid))
  word(24, Number(found.gid))
  view.setUint16(28, Number(found.mode), true)
  long(32, found.ino)
  long(40, found.size)
  long(48, found.blocks)
  time(64, found.atimeNs)
  time(96, found.ctimeNs)
  time(112, found.mtimeNs)
  word(128, major(found.rdev))
  word(132, minor(found.rdev))
  word(136, major(found.dev))
  word(140, minor(found.dev))
  return 0
}

/** Writes struct statfs of 64-bit Linux, <asm-generic/statfs.h>. */
export function writeStatfs(found: BigIntStatsFs, into: Uint8Array): 0 {
  const view = new DataView(into.buffer, into.byteOffset, 120)
  const { type, bsize, blocks, bfree, bavail, files, ffree } = found
  for (const [at, value] of [type, bsize, blocks, bfree, bavail, files, ffree].entries()) {
    view.setBigUint64(at * 8, BigInt.asUintN(64, value), true)
  }
  return 0
}
