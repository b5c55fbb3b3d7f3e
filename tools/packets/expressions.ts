import { attrs, bytes, type Infer, text, u32be } from "../../pkg/netlink/mod.ts"
import type { Expression, UnknownExpression } from "../../pkg/nftables/mod.ts"

const dataAttributes = attrs({ value: [1, bytes] })

/** Attributes of expressions that the plugins never create: `enum nft_*_attributes`, <linux/netfilter/nf_tables.h>. */
const tables = {
  byteorder: attrs({ sreg: [1, u32be], dreg: [2, u32be], op: [3, u32be], length: [4, u32be], size: [5, u32be] }),
  dynset: attrs({ set: [1, text], expression: [7, bytes], expressions: [10, bytes] }),
  hash: attrs({ sreg: [1, u32be], dreg: [2, u32be], modulus: [4, u32be], offset: [6, u32be] }),
  numgen: attrs({ dreg: [1, u32be], modulus: [2, u32be], offset: [4, u32be] }),
  objref: attrs({ type: [1, u32be] }),
  range: attrs({ sreg: [1, u32be], op: [2, u32be], from: [3, dataAttributes], to: [4, dataAttributes] }),
  redir: attrs({ portMin: [1, u32be], portMax: [2, u32be] }),
} as const

type Tables = typeof tables
type More = { [N in keyof Tables]: { name: N; data: Infer<Tables[N]> } }[keyof Tables]

/** An expression whose attributes are known here or in `pkg/nftables`, or one of which only the name is known. */
export type ReadExpression = Expression | More | { name: ""; data: UnknownExpression }

/** Decodes an expression that `pkg/nftables` returned as bytes. Throws `DecodeError`. */
export function readExpression(found: Expression | UnknownExpression): ReadExpression {
  const { name, data } = found
  if (!(data instanceof Uint8Array)) return found as Expression
  if (Object.hasOwn(tables, name)) return { name, data: tables[name as keyof Tables].decode(data) } as More
  return { name: "", data: { name, data } }
}
