import { encodeUtf8 } from "../../pkg/engine/mod.ts"
import { concat } from "../../pkg/netlink/mod.ts"

/** The size of a block in bytes. Files are padded to whole blocks. */
const BLOCK = 512

/** Returns a POSIX ustar archive of text files, mode 0600, owner root: pax(1), "ustar Interchange Format". */
export function tarOf(files: ReadonlyMap<string, string>, nowMs: number): Uint8Array {
  const parts: Uint8Array[] = []
  for (const [name, text] of files) {
    const content = encodeUtf8(text)
    parts.push(headerOf(name, content.length, nowMs), content, new Uint8Array(-content.length & (BLOCK - 1)))
  }
  return concat([...parts, new Uint8Array(2 * BLOCK)])
}

function headerOf(name: string, size: number, nowMs: number): Uint8Array {
  const header = new Uint8Array(BLOCK)
  const write = (text: string, at: number, limit = BLOCK) => header.set(encodeUtf8(text).subarray(0, limit), at)
  const octal = (value: number) => value.toString(8).padStart(11, "0")
  const [prefix, last] = splitName(name)
  write(last, 0, 100)
  write("0000600\0", 100) // the file's mode
  write("0000000\0", 108) // the file's owner
  write("0000000\0", 116) // the file's group
  write(`${octal(size)}\0`, 124)
  write(`${octal(Math.floor(nowMs / 1000))}\0`, 136)
  write("        ", 148) // the checksum counts its own field as spaces
  write("0", 156) // a regular file
  write("ustar\x0000", 257)
  write("root\0", 265)
  write("root\0", 297)
  write(prefix, 345, 155)
  const sum = header.reduce((total, byte) => total + byte, 0)
  write(`${sum.toString(8).padStart(6, "0")}\0 `, 148)
  return header
}

/** Splits a name of more than 100 bytes at a slash. Truncates a part that is still too long. */
function splitName(name: string): [prefix: string, name: string] {
  if (encodeUtf8(name).length <= 100) return ["", name]
  const at = name.lastIndexOf("/")
  return [name.slice(0, Math.max(0, at)), name.slice(at + 1).slice(0, 100)]
}
