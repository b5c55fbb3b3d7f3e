import type { Expression } from "../../pkg/nftables/mod.ts"
import type { Mapping } from "./actions.ts"
import { type Bits, compareBits, isKnown } from "./bits.ts"
import type { Registers } from "./registers.ts"

/** `NFT_NAT_DNAT` and `NFPROTO_IPV4` */
const DNAT = 1
const NFPROTO_IPV4 = 2

/** Returns the address change by `dnat` or `snat`. Address and port are in registers. */
export function natOf(
  {
    type,
    family,
    sregAddressMin,
    sregAddressMax,
    sregPortMin,
    sregPortMax,
  }: Extract<Expression, { name: "nat" }>["data"],
  registers: Registers,
): Mapping {
  const size = family === NFPROTO_IPV4 ? 4 : 16
  const ip = sregAddressMin === undefined ? undefined : registers.read(sregAddressMin, size)
  const last = sregAddressMax === undefined ? ip : registers.read(sregAddressMax, size)
  const { port, isOpen } = portOf(registers, sregPortMin, sregPortMax)
  const isOne = ip === undefined || (isKnown(ip) && last !== undefined && compareBits(last, ip.value) === 0)
  return {
    kind: type === DNAT ? "destination" : "source",
    ...(ip && isKnown(ip) ? { ip: Uint8Array.from(ip.value) } : {}),
    port,
    from: "rule",
    isOpen: !isOne || isOpen,
  }
}

/** Returns the port in a register, or undefined if the port stays unchanged. */
export function portOf(registers: Registers, min: number | undefined, max = min): Pick<Mapping, "port" | "isOpen"> {
  if (min === undefined) return { port: undefined, isOpen: false }
  const [first, last] = [min, max ?? min].map((register) => registers.read(register, 2)) as [Bits, Bits]
  if (!isKnown(first)) return { port: undefined, isOpen: true }
  const port = ((first.value[0] ?? 0) << 8) | (first.value[1] ?? 0)
  return { port, isOpen: compareBits(last, first.value) !== 0 }
}
