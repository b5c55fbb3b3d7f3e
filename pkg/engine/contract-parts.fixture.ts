import type { Engine } from "./engine.ts"

/** <asm-generic/fcntl.h> */
export const O = {
  read: 0,
  write: 1,
  both: 2,
  create: 0o100,
  exclusive: 0o200,
  nonBlocking: 0o4000,
  closeOnExec: 0o2000000,
}
export const here = -100 // AT_FDCWD, <linux/fcntl.h>
const basicStats = 0x7ff // STATX_BASIC_STATS, <linux/stat.h>

export function make(engine: Engine, path: string, content = ""): number {
  const fd = engine.open(path, O.both | O.create | O.exclusive | O.closeOnExec, 0o600)
  engine.write(fd, engine.encodeUtf8(content))
  return fd
}

export const room = (length: number) => new Uint8Array(length)
export const list = (bytes: Iterable<number>) => [...bytes]

/** Returns struct statx: the mode at offset 28, size at 40, seconds of the modification at 112; <linux/stat.h>. */
export function statOf(engine: Engine, path: string): { mode: number; size: number; modified: number } {
  const stat = new Uint8Array(256)
  engine.statx(here, path, 0, basicStats, stat)
  const view = new DataView(stat.buffer)
  return {
    mode: view.getUint16(28, true),
    size: Number(view.getBigUint64(40, true)),
    modified: Number(view.getBigInt64(112, true)),
  }
}
