import { attrs, bytes, listOf, text, u32be, u64be } from "../netlink/mod.ts"
import { dataAttributes, expressions } from "./expressions.ts"

/** `NFTA_TABLE_*`; these and the following: <linux/netfilter/nf_tables.h>. User data needs Linux 5.10 here. */
export const tableAttributes = attrs({
  name: [1, text],
  flags: [2, u32be],
  handle: [4, u64be],
  userdata: [6, bytes],
})

/** `NFTA_CHAIN_*`. A chain with a hook is a base chain. User data needs Linux 5.10 here; older ones ignore it. */
export const chainAttributes = attrs({
  table: [1, text],
  handle: [2, u64be],
  name: [3, text],
  hook: [4, attrs({ number: [1, u32be], priority: [2, u32be] })],
  policy: [5, u32be],
  type: [7, text],
  userdata: [12, bytes],
})

/** `NFTA_RULE_*` */
export const ruleAttributes = attrs({
  table: [1, text],
  chain: [2, text],
  handle: [3, u64be],
  expressions: [4, expressions],
  userdata: [7, bytes],
})

/** The same without the expressions: whoever only looks for a comment need not decode them. */
export const commentedRuleAttributes = attrs({ table: [1, text], chain: [2, text], userdata: [7, bytes] })

/** `NFTA_SET_*`. The kernel only uses the lengths; the types are for whoever lists the rule set. */
export const setAttributes = attrs({
  table: [1, text],
  name: [2, text],
  flags: [3, u32be],
  keyType: [4, u32be],
  keyLength: [5, u32be],
  dataType: [6, u32be],
  dataLength: [7, u32be],
  /** Any number that no other new set of the transaction has; the kernel refuses a set without one. */
  id: [10, u32be],
  userdata: [13, bytes],
})

/** The same without the properties: whoever only wants to know which sets there are need not decode them. */
export const setNameAttributes = attrs({ table: [1, text], name: [2, text] })

/** `NFTA_SET_ELEM_*` */
export const elementAttributes = attrs({
  key: [1, dataAttributes],
  data: [2, dataAttributes],
  flags: [3, u32be],
  userdata: [6, bytes],
})

/** `NFTA_SET_ELEM_LIST_*`: some elements of a set. */
export const elementListAttributes = attrs({
  table: [1, text],
  set: [2, text],
  setId: [4, u32be],
  elements: [3, listOf(1, elementAttributes)],
})

/** The same with the elements encoded already. */
export const encodedElementListAttributes = attrs({
  table: [1, text],
  set: [2, text],
  setId: [4, u32be],
  elements: [3, { ...bytes, nested: true }],
})

/** The same with the elements as bytes: whoever looks for one among thousands need not decode them all. */
export const rawElementListAttributes = attrs({ elements: [3, bytes] })

/** `NFTA_GEN_*` */
export const generationAttributes = attrs({ id: [1, u32be], process: [2, u32be], processName: [3, text] })

/** `NFNL_BATCH_GENID`: the transaction is refused with `ERESTART` when the rule set has another generation. */
export const batchAttributes = attrs({ generation: [1, u32be] })
