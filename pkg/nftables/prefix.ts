/** The bits that the addresses of a network share, as a mask of `size` bytes: 255.255.240.0 for a prefix length of 20. */
export function prefixMask(size: number, length: number): Uint8Array {
  const mask = new Uint8Array(size)
  for (let at = 0; at < size; at++) mask[at] = 0xff00 >> Math.min(8, Math.max(0, length - 8 * at))
  return mask
}
