/**
 * Reads a hardware address of 6, 8 or 20 bytes (Ethernet, EUI-64, InfiniBand) in one of its three spellings:
 * "0a:58:0a:01:02:03", "0a-58-0a-01-02-03" or "0a58.0a01.0203". `undefined` for anything else.
 */
export function parseMac(text: string): Uint8Array | undefined {
  const isSpelled = /^[0-9a-f]{2}(?:(?::[0-9a-f]{2})+|(?:-[0-9a-f]{2})+)$|^[0-9a-f]{4}(?:\.[0-9a-f]{4})+$/i.test(text)
  const pairs = isSpelled ? (text.replace(/[:.-]/g, "").match(/../g) ?? []) : []
  return [6, 8, 20].includes(pairs.length) ? Uint8Array.from(pairs, (pair) => Number.parseInt(pair, 16)) : undefined
}

/** Writes a hardware address as "0a:58:0a:01:02:03". */
export function formatMac(mac: Uint8Array): string {
  return Array.from(mac, (byte) => byte.toString(16).padStart(2, "0")).join(":")
}
