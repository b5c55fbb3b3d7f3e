/** Bytes of a block; a file fills whole ones. */
const BLOCK = 512

/** A tar of text files, in POSIX ustar format, pax(1) "ustar Interchange Format"; owned by root, mode 0600. */
export function tarOf(files: ReadonlyMap<string, string>, nowMs: number): Uint8Array {
  const parts: Uint8Array[] = []
  for (const [name, text] of files) {
    const content = Buffer.from(text)
    parts.push(headerOf(name, content.length, nowMs), content, new Uint8Array(-content.length & (BLOCK - 1)))
  }
  return Buffer.concat([...parts, new Uint8Array(2 * BLOCK)])
}

function headerOf(name: string, size: number, nowMs: number): Uint8Array {
  const header = Buffer.alloc(BLOCK)
  const [prefix, last] = splitName(name)
  header.write(last, 0, 100)
  header.write("0000600\0", 100) // mode
  header.write("0000000\0", 108) // owner
  header.write("0000000\0", 116) // group
  header.write(`${size.toString(8).padStart(11, "0")}\0`, 124)
  header.write(
    `${Math.floor(nowMs / 1000)
      .toString(8)
      .padStart(11, "0")}\0`,
    136,
  )
  header.write("        ", 148) // the checksum is over a header with blanks in its place
  header.write("0", 156) // a regular file
  header.write("ustar\x0000", 257)
  header.write("root\0", 265)
  header.write("root\0", 297)
  header.write(prefix, 345, 155)
  const sum = header.reduce((total, byte) => total + byte, 0)
  header.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148)
  return header
}

/** A name of more than 100 bytes is split at a slash; a part that is still too long is cut at its end. */
function splitName(name: string): [prefix: string, name: string] {
  if (Buffer.byteLength(name) <= 100) return ["", name]
  const at = name.lastIndexOf("/")
  return [name.slice(0, Math.max(0, at)), name.slice(at + 1).slice(0, 100)]
}
