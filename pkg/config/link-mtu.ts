import { invalidConfig } from "./parse.ts"

/** `ETH_MIN_MTU` and `ETH_MAX_MTU`, <linux/if_ether.h>: what the kernel takes for a veth or a bridge. */
const MIN = 68
const MAX = 65535

/** An MTU as it is configured: 0, and what is below it, leaves it to the kernel. See `linkMtu`. */
export const mtuOrNone = { kind: "integer", min: -(2 ** 31), max: MAX, default: 0 } as const

/** The MTU that a link shall have; undefined for the kernel's choice. Throws code 7 for one that the kernel refuses. */
export function linkMtu(mtu: number, lenient = false): number | undefined {
  if (mtu <= 0) return undefined
  if (mtu >= MIN) return mtu
  if (lenient) return undefined
  throw invalidConfig("mtu", `0, or a number from ${MIN} to ${MAX}`, mtu)
}
