/** Reads ELF files, elf(5). */
const empty = Buffer.alloc(0)
const SHT_NOBITS = 8

/** Address and content of each section of a file: what `objdump --section-headers --full-contents` shows. */
export function sectionsOf(file: Buffer): Map<string, Buffer> {
  const [table, size, count] = [Number(file.readBigUInt64LE(40)), file.readUInt16LE(58), file.readUInt16LE(60)]
  const headers = Array.from({ length: count }, (_, at) => file.subarray(table + at * size, table + (at + 1) * size))
  const content = (header: Buffer) => {
    const offset = Number(header.readBigUInt64LE(24))
    const length = header.readUInt32LE(4) === SHT_NOBITS ? 0 : Number(header.readBigUInt64LE(32))
    return file.subarray(offset, offset + length)
  }
  const names = content(headers[file.readUInt16LE(62)] ?? empty)
  const nameOf = (header: Buffer) => {
    const at = header.readUInt32LE(0)
    return names.toString("latin1", at, names.indexOf(0, at))
  }
  const address = (header: Buffer) => header.subarray(16, 24)
  return new Map(headers.map((header) => [nameOf(header), Buffer.concat([address(header), content(header)])]))
}
