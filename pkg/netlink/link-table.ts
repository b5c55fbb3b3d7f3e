import { attrs, listOf, payloadOf } from "./attrs.ts"
import { bytes, type Codec, codec, type Infer, mac, nameText, text } from "./codec.ts"
import { i32, struct, u8, u16, u16be, u32 } from "./integers.ts"

/** struct ifinfomsg, <linux/rtnetlink.h> */
export const linkHeader = struct({ family: u8, pad: u8, type: u16, index: i32, flags: u32, change: u32 })

/** Flags of a link, <linux/if.h>. */
export const IFF_UP = 0x1
export const IFF_LOOPBACK = 0x8
export const IFF_RUNNING = 0x40
export const IFF_NOARP = 0x80
export const IFF_PROMISC = 0x100
export const IFF_ALLMULTI = 0x200
export const IFF_MULTICAST = 0x1000
/** The flags of `ip link set NAME arp|promisc|allmulticast|multicast on|off`. */
export const LINK_OPTIONS = IFF_NOARP | IFF_PROMISC | IFF_ALLMULTI | IFF_MULTICAST

/** RFC 2863 states in `IFLA_OPERSTATE`. A veth whose peer is down is in the state "lowerlayerdown". */
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
  stpState: [5, u32],
  vlanFiltering: [7, u8],
  vlanDefaultPvid: [39, u16],
})

/** `IFLA_INFO_SLAVE_DATA` of kind "bridge", and `IFLA_PROTINFO` in family AF_BRIDGE; `enum IFLA_BRPORT_*`. */
export const bridgePortData = attrs({
  state: [1, u8],
  hairpin: [4, u8],
  learning: [8, u8],
  flood: [9, u8],
  mcastFlood: [27, u8],
  bcastFlood: [30, u8],
  isolated: [33, u8],
  locked: [39, u8],
})

/** `IFLA_LINKINFO`. The type of `data` depends on `kind`: see `linkKinds`. */
export const linkInfo = attrs({
  kind: [1, text],
  data: [2, bytes],
  slaveKind: [4, text],
  slaveData: [5, bytes],
})

/** The attributes of links that the plugins read or write. Others, such as struct rtnl_link_stats64, are left out. */
export const linkAttributes = attrs({
  mac: [1, mac], // IFLA_ADDRESS
  broadcast: [2, mac],
  name: [3, nameText], // IFLA_IFNAME
  mtu: [4, u32],
  /** The kind of the root qdisc, such as "noqueue" by default. */
  qdisc: [6, text],
  /** The index, in the namespace of `linkNetnsId`, of a veth's peer, or of the parent of a VLAN or macvlan. */
  link: [5, i32],
  master: [10, u32],
  txQueueLength: [13, u32],
  operState: [16, u8],
  linkInfo: [18, linkInfo],
  alias: [20, text],
  group: [27, u32],
  netnsFd: [28, u32],
  extMask: [29, u32],
  promiscuity: [30, u32], // the number of users that need the link to be promiscuous
  txQueues: [31, u32],
  rxQueues: [32, u32],
  carrier: [33, u8],
  perFamily: [26, bytes], // IFLA_AF_SPEC
  linkNetnsId: [37, i32],
  portName: [38, text], // IFLA_PHYS_PORT_NAME: the port of a device with several ports
  targetNetnsId: [46, i32], // only in requests: the namespace of the link
  xdp: [43, bytes], // IFLA_XDP
  newIndex: [49, i32], // only in requests that move a link: its index in the new namespace, since Linux 5.12
  altNames: [52, listOf(53, nameText)], // IFLA_PROP_LIST of IFLA_ALT_IFNAME
  altName: [53, nameText], // only in requests
  permanentMac: [54, mac], // the permanent address of the hardware
  parentName: [56, text], // IFLA_PARENT_DEV_NAME since Linux 5.14: the device on its bus, such as 0000:03:00.0
  parentBus: [57, text], // IFLA_PARENT_DEV_BUS_NAME: "pci", "virtio", …
  allMulti: [61, u32],
})

/** The payload of a message about a link. */
export const linkPayload = payloadOf(linkHeader, linkAttributes)

const {
  mac: address,
  name,
  mtu,
  qdisc,
  link,
  master,
  operState,
  alias,
  carrier,
  linkNetnsId,
  xdp,
} = linkAttributes.fields

/** The number of `net.ipv4.conf.NAME.arp_ignore` in `IFLA_INET_CONF`, from 1: `IPV4_DEVCONF_*`, <linux/ip.h>. */
const IPV4_DEVCONF_ARP_IGNORE = 19
const arpIgnore: Codec<number> = codec(
  () => {},
  (from, start, end) => u32.get(from.subarray(start, end), 4 * (IPV4_DEVCONF_ARP_IGNORE - 1)),
)
const known = { keepsUnknown: false }

/** The attributes that tools read. Decoding only these saves most of the time on a node with hundreds of links. */
export const briefLinkAttributes = attrs(
  {
    ...{ mac: address, name, mtu, qdisc, link, master, operState, alias, carrier, linkNetnsId, xdp },
    linkInfo: [18, linkInfo],
    statistics: [23, bytes], // IFLA_STATS64: struct rtnl_link_stats64
    settings: [26, attrs({ inet: [2, attrs({ arpIgnore: [1, arpIgnore] }, known)] }, known)], // IFLA_AF_SPEC, AF_INET
  },
  known,
)
export const briefLinkPayload = payloadOf(linkHeader, briefLinkAttributes)

/** `IFLA_PROTINFO` of family AF_BRIDGE: the settings of a port that `bridge link set` changes. */
export const bridgePortAttributes = attrs({ name: [3, text], master: [10, u32], port: [12, bridgePortData] })

/** The peer in the request that creates a veth pair: struct ifinfomsg, then the peer's attributes. */
const vethPeer: Codec<Infer<typeof linkAttributes>> = codec(
  (attributes, to) => {
    linkHeader.append({}, to)
    linkAttributes.append(attributes, to)
  },
  (from, start, end) => linkAttributes.read(from, start + linkHeader.size, end),
)

/** `MACVLAN_MODE_*`, <linux/if_link.h>. */
export const macvlanModes = { private: 1, vepa: 2, bridge: 4, passthru: 8 } as const

/** `IPVLAN_MODE_*` and `IPVLAN_F_*`, <linux/if_link.h>. */
export const ipvlanModes = { l2: 0, l3: 1, l3s: 2 } as const
export const ipvlanFlags = { bridge: 0, private: 1, vepa: 2 } as const

/** `ETH_P_8021Q` and `ETH_P_8021AD`, <linux/if_ether.h>: the first field of a VLAN tag. */
export const vlanProtocols = { "802.1q": 0x8100, "802.1ad": 0x88a8 } as const

/**
 * Kinds of links that plugins create, with `IFLA_INFO_DATA`, <linux/if_link.h>. The data of other kinds is kept as
 * bytes.
 */
export const linkKinds = {
  bridge: bridgeData,
  veth: attrs({ peer: [1, vethPeer] }), // VETH_INFO_PEER
  macvlan: attrs({
    mode: [1, u32],
    flags: [2, u16],
    broadcastQueueLength: [7, u32], // IFLA_MACVLAN_BC_QUEUE_LEN, since Linux 5.11
  }),
  ipvlan: attrs({ mode: [1, u16], flags: [2, u16] }),
  vlan: attrs({ id: [1, u16], protocol: [5, u16be] }),
  dummy: attrs({}),
  ifb: attrs({}),
  vrf: attrs({ table: [1, u32] }), // IFLA_VRF_TABLE
  /** `IFLA_TUN_*`: the kernel's attributes of a tun or a tap, which only ioctl(2) can create. */
  tun: attrs({
    owner: [1, u32],
    group: [2, u32],
    type: [3, u8], // IFF_TUN 1, IFF_TAP 2
    multiQueue: [7, u8],
  }),
} as const

export type LinkKind = keyof typeof linkKinds

/** `IFLA_INFO_DATA` of a kind of link. */
export type LinkData<K extends LinkKind> = Infer<(typeof linkKinds)[K]>
