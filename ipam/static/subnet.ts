import type { Cidr } from "../../pkg/types/mod.ts"

/** Whether an address lies in the network of another. */
export function isInSubnet(address: Uint8Array, { ip, prefix }: Cidr): boolean {
  if (address.length !== ip.length) return false
  return address.every((byte, index) => {
    const mask = 0xff00 >> Math.min(8, Math.max(0, prefix - index * 8))
    return ((byte ^ (ip[index] ?? 0)) & mask & 0xff) === 0
  })
}
