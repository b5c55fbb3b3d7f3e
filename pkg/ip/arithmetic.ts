import type { Cidr } from "../types/mod.ts"

/** The network that an address lies in: 10.1.2.3/24 gives 10.1.2.0. */
export function networkOf({ ip, prefix }: Cidr): Uint8Array {
  const network = new Uint8Array(ip.length)
  for (let at = 0; at < ip.length; at++)
    network[at] = (ip[at] ?? 0) & (0xff00 >> Math.min(8, Math.max(0, prefix - at * 8)))
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
