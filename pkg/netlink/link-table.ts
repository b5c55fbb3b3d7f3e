import { attrs } from "./attrs.ts"
import { bytes, i32, mac, struct, text, u8, u16, u16be, u32 } from "./codec.ts"

/** struct ifinfomsg, <linux/rtnetlink.h> */
export const linkHeader = struct({ family: u8, pad: u8, type: u16, index: i32, flags: u32, change: u32 })

/** Flags of a link, <linux/if.h>. */
export const IFF_UP = 0x1
export const IFF_LOOPBACK = 0x8
export const IFF_RUNNING = 0x40
export const IFF_PROMISC = 0x100
export const IFF_ALLMULTI = 0x200

/** RFC 2863 states in `IFLA_OPERSTATE`; veth pairs whose peer is down say "lowerlayerdown". */
export const OperState = {
  Unknown: 0,
  NotPresent: 1,
  Down: 2,
  LowerLayerDown: 3,
  Testing: 4,
  Dormant: 5,
  Up: 6,
} as const

/** `IFLA_INFO_DATA` of kind "bridge"; `enum ifla_br`, <linux/if_link.h>. */
export const bridgeData = attrs({
  forwardDelay: [1, u32], // 1/100 s
  helloTime: [2, u32],
  maxAge: [3, u32],
  ageingTime: [4, u32],
  stpState: [5, u32],
  vlanFiltering: [7, u8],
  vlanProtocol: [8, u16be],
  groupForwardMask: [9, u16],
  multicastSnooping: [23, u8],
  vlanDefaultPvid: [39, u16],
})

/** `IFLA_INFO_SLAVE_DATA` of kind "bridge", and `IFLA_PROTINFO` in family AF_BRIDGE; `enum IFLA_BRPORT_*`. */
export const bridgePortData = attrs({
  state: [1, u8], // 0 disabled, 1 listening, 2 learning, 3 forwarding, 4 blocking
  priority: [2, u16],
  cost: [3, u32],
  hairpin: [4, u8],
  guard: [5, u8],
  protect: [6, u8],
  fastLeave: [7, u8],
  learning: [8, u8],
  unicastFlood: [9, u8],
  isolated: [33, u8],
})

/** Of the tables for `IFLA_INFO_DATA` those that the plugins make; other kinds are kept as bytes. */
export const infoData = { bridge: bridgeData } as const

/** `IFLA_LINKINFO`. What `data` holds depends on `kind`: see `infoData`, and `vethPeer` for "veth". */
export const linkInfo = attrs({
  kind: [1, text],
  data: [2, bytes],
  slaveKind: [4, text],
  slaveData: [5, bytes],
})

/** struct rtnl_link_stats64 and the like are left alone: the attributes that the plugins read or write. */
export const linkAttributes = attrs({
  mac: [1, mac], // IFLA_ADDRESS
  broadcast: [2, mac],
  name: [3, text], // IFLA_IFNAME
  mtu: [4, u32],
  /** The peer of a veth, the parent of a VLAN or macvlan: an index, in `linkNetnsId`'s namespace. */
  link: [5, i32],
  master: [10, u32],
  txQueueLength: [13, u32],
  operState: [16, u8],
  linkInfo: [18, linkInfo],
  netnsPid: [19, u32],
  alias: [20, text],
  group: [27, u32],
  netnsFd: [28, u32],
  extMask: [29, u32],
  promiscuity: [30, u32], // how many want the link to be promiscuous
  txQueues: [31, u32],
  rxQueues: [32, u32],
  carrier: [33, u8],
  linkNetnsId: [37, i32],
  minMtu: [50, u32],
  maxMtu: [51, u32],
  altName: [53, text], // IFLA_ALT_IFNAME, only in requests
  allMulti: [61, u32],
})

/** `IFLA_PROTINFO` of family AF_BRIDGE: how a port is set, like `bridge link set`. */
export const bridgePortAttributes = attrs({ name: [3, text], master: [10, u32], port: [12, bridgePortData] })

/** What a veth's `IFLA_INFO_DATA` holds: `VETH_INFO_PEER`, an ifinfomsg and the peer's own attributes. */
export const VETH_INFO_PEER = 1
