/** Reads ELF files, elf(5). */
const empty = Buffer.alloc(0)
const SHT_NOBITS = 8
const SHN_XINDEX = 0xffff

/** Returns each section's address and content in an ELF file, like `objdump --section-headers --full-contents`. */
export function sectionsOf(file: Buffer): Map<string, Buffer> {
  const [table, size] = [Number(file.readBigUInt64LE(40)), file.readUInt16LE(58)]
  const headerAt = (at: number) => file.subarray(table + at * size, table + (at + 1) * size)
  // If a number does not fit into 16 bits, it is in the header of section 0.
  const count = table === 0 ? 0 : file.readUInt16LE(60) || Number(headerAt(0).readBigUInt64LE(32))
  const named = file.readUInt16LE(62)
  const namesAt = named === SHN_XINDEX ? headerAt(0).readUInt32LE(40) : named
  const headers = Array.from({ length: count }, (_, at) => headerAt(at))
  const content = (header: Buffer) => {
    const offset = Number(header.readBigUInt64LE(24))
    const length = header.readUInt32LE(4) === SHT_NOBITS ? 0 : Number(header.readBigUInt64LE(32))
    return file.subarray(offset, offset + length)
  }
  const names = content(headers[namesAt] ?? empty)
  const nameOf = (header: Buffer) => {
    const at = header.readUInt32LE(0)
    return names.toString("latin1", at, names.indexOf(0, at))
  }
  const address = (header: Buffer) => header.subarray(16, 24)
  return new Map(headers.map((header) => [nameOf(header), Buffer.concat([address(header), content(header)])]))
}
