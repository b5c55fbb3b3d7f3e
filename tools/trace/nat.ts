import { type Expression, extensionAttributes, type FoundRule } from "../../pkg/nftables/mod.ts"
import type { Mapping } from "./actions.ts"
import { type Bits, compareBits, isKnown, knownBits } from "./bits.ts"
import { mappingOf } from "./extension-targets.ts"
import { Registers } from "./registers.ts"

/** `NFT_NAT_SNAT`, `NFT_NAT_DNAT` and `NFPROTO_IPV4` */
const [SNAT, DNAT] = [0, 1]
const NFPROTO_IPV4 = 2

/** The packet after `dnat` or `snat`: address and port are in registers. */
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

/** The port in a register; undefined where the port stays as it is. */
export function portOf(registers: Registers, min: number | undefined, max = min): Pick<Mapping, "port" | "isOpen"> {
  if (min === undefined) return { port: undefined, isOpen: false }
  const [first, last] = [min, max ?? min].map((register) => registers.read(register, 2)) as [Bits, Bits]
  if (!isKnown(first)) return { port: undefined, isOpen: true }
  const port = ((first.value[0] ?? 0) << 8) | (first.value[1] ?? 0)
  return { port, isOpen: compareBits(last, first.value) !== 0 }
}

/** The one address that a rule gives packets as their source, by `snat to` or iptables' SNAT; undefined for another rule, and where there are several. */
export function fixedSourceOf({ chain, expressions }: FoundRule): Uint8Array | undefined {
  const registers = new Registers()
  for (const { name, data } of expressions) {
    if (name === "target" && data instanceof Uint8Array) {
      const { name: target, revision = 0, info = new Uint8Array(0) } = extensionAttributes.decode(data)
      if (target !== "SNAT") continue
      const { ip, isOpen } = mappingOf("source", info, revision, chain.table.family === "ip")
      return isOpen ? undefined : ip
    }
    if (data instanceof Uint8Array) continue
    if (name === "immediate" && data.data?.value) registers.load(data.dreg ?? 1, knownBits(data.data.value))
    if (name !== "nat" || (data.type ?? SNAT) !== SNAT) continue
    const { ip, isOpen } = natOf(data, registers)
    return isOpen ? undefined : ip
  }
  return undefined
}
