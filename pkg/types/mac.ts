/**
 * Reads a hardware address of 6, 8 or 20 bytes (Ethernet, EUI-64, InfiniBand) in one of its three spellings:
 * "0a:58:0a:01:02:03", "0a-58-0a-01-02-03" or "0a58.0a01.0203". `undefined` for anything else.
 */
export function parseMac(text: string): Uint8Array | undefined {
  const isSpelled = /^[0-9a-f]{2}(?:(?::[0-9a-f]{2})+|(?:-[0-9a-f]{2})+)$|^[0-9a-f]{4}(?:\.[0-9a-f]{4})+$/i.test(text)
  const digits = isSpelled ? text.replace(/[:.-]/g, "") : ""
  const length = digits.length / 2
  if (length !== 6 && length !== 8 && length !== 20) return undefined
  const mac = new Uint8Array(length)
  for (let at = 0; at < length; at++) mac[at] = Number.parseInt(digits.slice(2 * at, 2 * at + 2), 16)
  return mac
}

/** Writes a hardware address as "0a:58:0a:01:02:03". */
export function formatMac(mac: Uint8Array): string {
  const pairs: string[] = []
  for (const byte of mac) pairs.push(byte.toString(16).padStart(2, "0"))
  return pairs.join(":")
}
