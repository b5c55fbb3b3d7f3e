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

/** What encloses a transaction; <linux/netfilter/nfnetlink.h> */
export const NFNL_MSG_BATCH_BEGIN = 0x10
export const NFNL_MSG_BATCH_END = 0x11
export const NFNL_SUBSYS_NFTABLES = 10

/** Bytes of struct nfgenmsg, with which every message begins: family, version, resource. */
export const NFGENMSG_SIZE = 4

/** `NFPROTO_*`, <linux/netfilter.h>, by the names that `nft` has for them. */
export const familyNumber = { inet: 1, ip: 2, arp: 3, netdev: 5, bridge: 7, ip6: 10 } as const

/** `enum nf_inet_hooks` and, with the same numbers, `NF_BR_*`. */
export const hookNumber = { prerouting: 0, input: 1, forward: 2, output: 3, postrouting: 4 } as const

/** `NF_DROP` and `NF_ACCEPT`: policies and verdicts. */
export const policyNumber = { drop: 0, accept: 1 } as const

/** `NFT_SET_*`: a property of a set. */
export const NFT_SET_MAP = 0x8

/** The data type of verdicts in a map, `NFT_DATA_VERDICT`. */
export const NFT_DATA_VERDICT = 0xffffff00
