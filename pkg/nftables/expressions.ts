import {
  type Attributes,
  appendAttribute,
  attrs,
  bytes,
  type Codec,
  codec,
  type Infer,
  listOf,
  nested,
  text,
  u8,
  u32be,
  u64be,
} from "../netlink/mod.ts"

/** `NFTA_DATA_*`: the value of a register, or a verdict. */
export const dataAttributes = attrs({
  value: [1, bytes],
  verdict: [2, attrs({ code: [1, u32be], chain: [2, text] })],
})

/**
 * The expressions of a rule by name, each with its attributes; `enum nft_*_attributes`, <linux/netfilter/nf_tables.h>.
 * An expression works on registers: it reads `sreg` and writes `dreg`.
 */
export const expressionTables = {
  bitwise: attrs({
    sreg: [1, u32be],
    dreg: [2, u32be],
    /** `enum nft_bitwise_ops`. The default 0, mask and xor, is the only operation before Linux 5.6. */
    operation: [6, u32be],
    length: [3, u32be],
    mask: [4, dataAttributes],
    xor: [5, dataAttributes],
  }),
  cmp: attrs({ sreg: [1, u32be], op: [2, u32be], data: [3, dataAttributes] }),
  counter: attrs({ bytes: [1, u64be], packets: [2, u64be] }),
  ct: attrs({ dreg: [1, u32be], key: [2, u32be], direction: [3, u8], sreg: [4, u32be] }),
  fib: attrs({ dreg: [1, u32be], result: [2, u32be], flags: [3, u32be] }),
  immediate: attrs({ dreg: [1, u32be], data: [2, dataAttributes] }),
  lookup: attrs({ set: [1, text], sreg: [2, u32be], dreg: [3, u32be], setId: [4, u32be], flags: [5, u32be] }),
  masq: attrs({ flags: [1, u32be], sregPortMin: [2, u32be], sregPortMax: [3, u32be] }),
  meta: attrs({ dreg: [1, u32be], key: [2, u32be], sreg: [3, u32be] }),
  nat: attrs({
    type: [1, u32be],
    family: [2, u32be],
    sregAddressMin: [3, u32be],
    sregAddressMax: [4, u32be],
    sregPortMin: [5, u32be],
    sregPortMax: [6, u32be],
    flags: [7, u32be],
  }),
  payload: attrs({ dreg: [1, u32be], base: [2, u32be], offset: [3, u32be], length: [4, u32be] }),
} as const

type Tables = typeof expressionTables

/** An expression of a rule as the kernel stores it. */
export type Expression = { [N in keyof Tables]: { name: N; data: Infer<Tables[N]> } }[keyof Tables]

/** An expression that is not in the table of expressions, as bytes. */
export interface UnknownExpression {
  name: string
  data: Uint8Array
}

/** `NFTA_EXPR_*` */
const [NFTA_EXPR_NAME, NFTA_EXPR_DATA] = [1, 2]
const rawData = nested(bytes)
const expressionAttributes = attrs({ name: [NFTA_EXPR_NAME, text], data: [NFTA_EXPR_DATA, rawData] })

/** `NFTA_MATCH_*`, `NFTA_TARGET_*`, <linux/netfilter/nf_tables_compat.h>: an extension of iptables. */
export const extensionAttributes = attrs({ name: [1, text], revision: [2, u32be], info: [3, bytes] })

/** `NFTA_LIST_ELEM` in `NFTA_RULE_EXPRESSIONS`: a name, and attributes that depend on the name. */
const expression: Codec<Expression | UnknownExpression> = nested(
  codec(
    ({ name, data }, to) => {
      appendAttribute(NFTA_EXPR_NAME, text, name, to)
      const table = tableOf(name)
      if (data instanceof Uint8Array) appendAttribute(NFTA_EXPR_DATA, rawData, data, to)
      else if (table) appendAttribute(NFTA_EXPR_DATA, table, data, to)
      else throw new RangeError(`no expression is called "${name}"`)
    },
    (from, start, end) => {
      const { name = "", data = new Uint8Array(0) } = expressionAttributes.read(from, start, end)
      const table = tableOf(name)
      return (table ? { name, data: table.decode(data) } : { name, data }) as Expression | UnknownExpression
    },
  ),
)

function tableOf(name: string): Attributes<Record<never, never>> | undefined {
  return Object.hasOwn(expressionTables, name) ? expressionTables[name as keyof Tables] : undefined
}

/** The expressions of a rule, in order. */
export const expressions = listOf(1, expression)
