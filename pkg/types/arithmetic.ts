import type { Cidr } from "./ip.ts"

/** The bits that the addresses of a network share, as a mask of `size` bytes: 255.255.240.0 for a prefix length of 20. */
export function prefixMask(size: number, length: number): Uint8Array {
  const mask = new Uint8Array(size)
  for (let at = 0; at < size; at++) mask[at] = 0xff00 >> Math.min(8, Math.max(0, length - 8 * at))
  return mask
}

/** The network that an address lies in: 10.1.2.3/24 gives 10.1.2.0. */
export function networkOf({ ip, prefix }: Cidr): Uint8Array {
  const network = prefixMask(ip.length, prefix)
  for (let at = 0; at < ip.length; at++) network[at] = (network[at] ?? 0) & (ip[at] ?? 0)
  return network
}

/** Whether an address lies in a network. Addresses of the other family do not. */
export function contains(network: Cidr, ip: Uint8Array): boolean {
  return network.ip.length === ip.length && sameBytes(networkOf(network), networkOf({ ip, prefix: network.prefix }))
}

/** The address after this one; all ones wraps to all zeros. */
export function nextAddress(ip: Uint8Array): Uint8Array {
  const next = ip.slice()
  for (let at = next.length - 1; at >= 0; at--) {
    const byte = ((next[at] ?? 0) + 1) & 0xff
    next[at] = byte
    if (byte !== 0) break
  }
  return next
}

export function sameBytes(a: Uint8Array, b: Uint8Array): boolean {
  if (a.length !== b.length) return false
  for (let at = 0; at < a.length; at++) if (a[at] !== b[at]) return false
  return true
}
