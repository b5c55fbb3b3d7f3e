import { attrs, bytes, listOf, nested, text, u32be, u64be } from "../netlink/mod.ts"
import { dataAttributes, expressions } from "./expressions.ts"

/** Message types: `NFNL_SUBSYS_NFTABLES` << 8 | `enum nf_tables_msg_types`, <linux/netfilter/nf_tables.h> */
export const NFT_MSG_NEWTABLE = 0xa00
export const NFT_MSG_GETTABLE = 0xa01
export const NFT_MSG_DELTABLE = 0xa02
export const NFT_MSG_NEWCHAIN = 0xa03
export const NFT_MSG_GETCHAIN = 0xa04
export const NFT_MSG_DELCHAIN = 0xa05
export const NFT_MSG_NEWRULE = 0xa06
export const NFT_MSG_GETRULE = 0xa07
export const NFT_MSG_DELRULE = 0xa08
export const NFT_MSG_NEWSET = 0xa09
export const NFT_MSG_GETSET = 0xa0a
export const NFT_MSG_DELSET = 0xa0b
export const NFT_MSG_NEWSETELEM = 0xa0c
export const NFT_MSG_GETSETELEM = 0xa0d
export const NFT_MSG_DELSETELEM = 0xa0e
export const NFT_MSG_GETGEN = 0xa10

/** The first and the last message of a transaction; <linux/netfilter/nfnetlink.h> */
export const NFNL_MSG_BATCH_BEGIN = 0x10
export const NFNL_MSG_BATCH_END = 0x11
export const NFNL_SUBSYS_NFTABLES = 10

/** `NFPROTO_*`, <linux/netfilter.h>, by the names that `nft` uses. */
export const familyNumber = { inet: 1, ip: 2, arp: 3, netdev: 5, bridge: 7, ip6: 10 } as const

/** `enum nf_inet_hooks` and, with the same numbers, `NF_BR_*`. */
export const hookNumber = { prerouting: 0, input: 1, forward: 2, output: 3, postrouting: 4 } as const

/** The hooks of an interface: `enum nf_dev_hooks` in family netdev, `NF_INET_INGRESS` in family inet. */
export const deviceHookNumber = { netdev: { ingress: 0, egress: 1 }, inet: { ingress: 5 } } as const

/** `NF_DROP` and `NF_ACCEPT`, for policies and verdicts. */
export const policyNumber = { drop: 0, accept: 1 } as const

/** Flags of a set, `NFT_SET_*`: it is a map; its elements are ends of ranges. */
export const NFT_SET_MAP = 0x8
export const NFT_SET_INTERVAL = 0x4
/** The type of the values in a verdict map. */
export const NFT_DATA_VERDICT = 0xffffff00

/**
 * `NFTA_TABLE_*`, like all attributes here from <linux/netfilter/nf_tables.h>. Before Linux 5.10 a table has no user
 * data.
 */
export const tableAttributes = attrs({
  name: [1, text],
  flags: [2, u32be],
  handle: [4, u64be],
  userdata: [6, bytes],
})

/** `NFTA_CHAIN_*`. A chain with a hook is a base chain. Kernels before 5.10 ignore user data here. */
export const chainAttributes = attrs({
  table: [1, text],
  handle: [2, u64be],
  name: [3, text],
  hook: [4, attrs({ number: [1, u32be], priority: [2, u32be], device: [3, text], devices: [4, listOf(1, text)] })],
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

/** The attributes that are needed to read a rule's comment, without its expressions. */
export const commentedRuleAttributes = attrs({ table: [1, text], chain: [2, text], userdata: [7, bytes] })

/** `NFTA_SET_*`. The types tell `nft` how to print the elements; the kernel uses only that of verdicts. */
export const setAttributes = attrs({
  table: [1, text],
  name: [2, text],
  flags: [3, u32be],
  keyType: [4, u32be],
  keyLength: [5, u32be],
  dataType: [6, u32be],
  dataLength: [7, u32be],
  /** The number of a new set, unique in the transaction. The kernel refuses a set without a number. */
  id: [10, u32be],
  userdata: [13, bytes],
})

/** The attributes that are needed to read the name of a set. */
export const setNameAttributes = attrs({ table: [1, text], name: [2, text] })

/** `NFTA_SET_ELEM_*` */
export const elementAttributes = attrs({
  key: [1, dataAttributes],
  data: [2, dataAttributes],
  flags: [3, u32be],
  userdata: [6, bytes],
})

/** `NFTA_SET_ELEM_LIST_*`: the elements of a set. */
export const elementListAttributes = attrs({
  table: [1, text],
  set: [2, text],
  setId: [4, u32be],
  elements: [3, listOf(1, elementAttributes)],
})

/** A list of elements as bytes, for elements that are already encoded, and for a search before decoding. */
export const rawElementListAttributes = attrs({
  table: [1, text],
  set: [2, text],
  setId: [4, u32be],
  elements: [3, nested(bytes)],
})

/** `NFTA_GEN_*` */
export const generationAttributes = attrs({ id: [1, u32be], process: [2, u32be], processName: [3, text] })

/** `NFNL_BATCH_GENID`: the kernel refuses the transaction with `ERESTART` if the generation differs. */
export const batchAttributes = attrs({ generation: [1, u32be] })
