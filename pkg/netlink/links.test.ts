import { describe, expect, test } from "bun:test"
import { attribute } from "./attrs.ts"
import { concat } from "./codec.ts"
import { addAliasedLink, addLink, addVeth, deleteLink, setLink } from "./link-changes.ts"
import {
  bridgePortData,
  briefLinkAttributes,
  IFF_UP,
  ipvlanFlags,
  ipvlanModes,
  linkAttributes,
  linkKinds,
  macvlanModes,
  vlanProtocols,
} from "./link-table.ts"
import { findLink, getLink, type Ifindex, listLinks, listLinksInside, readLink } from "./links.ts"
import { encodeMessage, type Message, NLM_F_DUMP_INTR } from "./message.ts"
import { NETLINK_ROUTE, NetlinkSocket } from "./socket.ts"
import {
  acknowledge,
  done,
  expectOnlyDecodeErrors,
  hex,
  type Layout,
  linkNumber,
  listing,
  requestOf,
  ScriptedKernel,
  tree,
} from "./testing.ts"

// The bytes below a command are those that iproute2 6.1.0 sent for it, without struct nlmsghdr:
//   strace -e trace=sendmsg -e write=3 COMMAND
// RTM_NEWLINK is 16; flags 0x5 are REQUEST | ACK, 0x605 also CREATE | EXCL.

const v0 = linkNumber(2, "v0")

/** struct ifinfomsg, and the attributes that contain attributes. */
const linkLayout: Layout = {
  header: 16,
  nested: { 18: { texts: [1], nested: { 2: { nested: { 1: { header: 16, texts: [3] } } } } } },
}
const bridgeLayout: Layout = { header: 16, nested: { 18: { texts: [1], nested: { 2: {} } } } }

describe("creating", () => {
  // ip link add name v0 address 0a:00:00:00:00:01 mtu 1400 type veth
  //   peer name eth0 address 0a:00:00:00:00:02 mtu 1400 netns PEER
  const captured = hex`
    00000000000000000000000000000000
    0a00 0100 0a0000000001 0000
    0800 0400 78050000
    0700 0300 763000 00
    4c00 1200
      0800 0100 76657468
      4000 0200
        3c00 0100 00000000000000000000000000000000
          0a00 0100 0a0000000002 0000
          0800 0400 78050000
          0800 1c00 04000000
          0900 0300 6574683000 000000`

  test("a veth pair takes one request, with the peer's name, MAC, MTU and namespace inside", () => {
    const { type, flags, payload } = requestOf((route) =>
      addVeth(
        route,
        { name: "v0", mac: "0a:00:00:00:00:01", mtu: 1400 },
        { name: "eth0", mac: "0a:00:00:00:00:02", mtu: 1400, netnsFd: 4 },
      ),
    )
    expect({ type, flags }).toEqual({ type: 16, flags: 0x605 })
    expect(payload).toEqual(hex`
      00 00 0000 00000000 00000000 00000000  # struct ifinfomsg
      0700 0300 763000 00                    # IFLA_IFNAME "v0"
      0a00 0100 0a0000000001 0000            # IFLA_ADDRESS
      0800 0400 78050000                     # IFLA_MTU 1400
      5000 1280                              # IFLA_LINKINFO | NLA_F_NESTED
        0900 0100 7665746800 000000          # IFLA_INFO_KIND "veth"
        4000 0200                            # IFLA_INFO_DATA
          3c00 0100                          # VETH_INFO_PEER
            00 00 0000 00000000 00000000 00000000
            0900 0300 6574683000 000000      # IFLA_IFNAME "eth0"
            0a00 0100 0a0000000002 0000      # IFLA_ADDRESS
            0800 0400 78050000               # IFLA_MTU 1400
            0800 1c00 04000000               # IFLA_NET_NS_FD 4`)
    expect(tree(payload, linkLayout)).toEqual(tree(captured, linkLayout))
  })

  // ip link add v0 numtxqueues 3 numrxqueues 3 type veth peer name eth0
  test("a number of queues is that of both directions", () => {
    const captured = hex`
      00000000000000000000000000000000
      0800 1f00 03000000
      0800 2000 03000000
      0700 0300 763000 00
      3000 1200
        0800 0100 76657468
        2400 0200
          2000 0100 00000000000000000000000000000000
            0900 0300 6574683000 000000`
    const { payload } = requestOf((route) => addVeth(route, { name: "v0", queues: 3 }, { name: "eth0" }))
    const { 18: info, ...others } = tree(payload, linkLayout)
    expect(tree(captured, linkLayout)).toMatchObject(others)
    expect(others).toMatchObject({ 31: "03000000", 32: "03000000" })
  })

  // ip link add br0 type bridge
  test("a bridge sends its kind, and data even when there are none", () => {
    const { type, flags, payload } = requestOf((route) => addLink(route, { kind: "bridge", name: "br0", data: {} }))
    expect({ type, flags }).toEqual({ type: 16, flags: 0x605 })
    expect(payload).toEqual(hex`
      00000000000000000000000000000000
      0800 0300 62723000
      1400 1280
        0b00 0100 62726964676500 00
        0400 0200`)
    const captured = hex`
      00000000000000000000000000000000 0800 0300 62723000 1000 1200 0a00 0100 627269646765 0000`
    const { 18: info, ...others } = tree(payload, { header: 16, nested: { 18: { texts: [1] } } })
    expect(info).toEqual({ header: "", 1: "627269646765", 2: "" })
    expect(others).toMatchObject({ 3: "62723000" })
    expect(tree(captured, linkLayout)).toMatchObject({ ...others, 18: { 1: "627269646765" } })
  })

  // ip link add br7 type bridge vlan_filtering 1 vlan_default_pvid 1
  test("a bridge with everything that can be set", () => {
    const captured = hex`
      00000000000000000000000000000000
      0800 0300 62723700
      2400 1200
        0a00 0100 627269646765 0000
        1400 0200
          0500 0700 01 000000
          0600 2700 0100 0000`
    const data = { vlanFiltering: 1, vlanDefaultPvid: 1 }
    const { payload } = requestOf((route) => addLink(route, { kind: "bridge", name: "br7", data }))
    expect(tree(payload, bridgeLayout)).toEqual(tree(captured, bridgeLayout))
    expect(linkKinds.bridge.encode(data)).toEqual(captured.slice(-0x10))
    expect(linkKinds.bridge.decode(captured.slice(-0x10))).toEqual(data)
  })

  // ip link add link br0 name x mtu 1400 txqueuelen 50 type macvlan
  test("a kind without data of its own, on top of another link", () => {
    const captured = hex`
      00000000000000000000000000000000
      0800 0400 78050000
      0800 0d00 32000000
      0800 0500 03000000
      0600 0300 7800 0000
      1000 1200 0b00 0100 6d6163766c616e 00`
    const { payload } = requestOf((route) =>
      addLink(route, { name: "x", kind: "macvlan", parent: 3 as Ifindex, mtu: 1400, txQueueLength: 50 }),
    )
    expect(payload).toEqual(hex`
      00000000000000000000000000000000
      0600 0300 7800 0000
      0800 0400 78050000
      0800 0500 03000000
      0800 0d00 32000000
      1000 1280 0c00 0100 6d6163766c616e00`)
    expect(tree(payload, linkLayout)).toEqual(tree(captured, linkLayout))
  })

  // ip link add name x0 mtu 1400 address 02:00:00:00:00:07 type dummy
  test("a kind that has no data, by itself", () => {
    const captured = hex`
      00000000000000000000000000000000
      0800 0400 78050000
      0a00 0100 020000000007 0000
      0700 0300 783000 00
      1000 1200 0900 0100 64756d6d79 000000`
    const { payload } = requestOf((route) =>
      addLink(route, { name: "x0", kind: "dummy", mtu: 1400, mac: "02:00:00:00:00:07" }),
    )
    expect(tree(payload, linkLayout)).toEqual(tree(captured, linkLayout))
  })

  // ip link add red up type vrf table 1001
  test("a VRF with its table", () => {
    const { payload } = requestOf((route) =>
      addLink(route, { name: "red", kind: "vrf", up: true, data: { table: 1001 } }),
    )
    const captured = hex`
      00000000 00000000 01000000 01000000
      0800 0300 72656400
      1800 1200 0700 0100 767266 00
        0c00 0200 0800 0100 e9030000`
    expect(tree(payload, bridgeLayout)).toEqual(tree(captured, bridgeLayout))
  })

  // ip link add link br0 name x type macvlan mode passthru nopromisc bcqueuelen 5000
  test("a kind with data of its own", () => {
    const data = { mode: macvlanModes.passthru, flags: 1, broadcastQueueLength: 5000 }
    const { payload } = requestOf((route) => addLink(route, { name: "x", kind: "macvlan", parent: 2 as Ifindex, data }))
    const captured = hex`
      00000000000000000000000000000000
      0800 0500 02000000
      0600 0300 7800 0000
      2c00 1200 0b00 0100 6d6163766c616e 00
        1c00 0200
          0800 0700 88130000
          0800 0100 08000000
          0600 0200 0100 0000`
    expect(tree(payload, bridgeLayout)).toEqual(tree(captured, bridgeLayout))
  })

  test.each([
    {
      command: "ip link add link d0 name x type ipvlan mode l2",
      kind: "ipvlan",
      data: { mode: ipvlanModes.l2, flags: ipvlanFlags.bridge },
      captured: hex`2400 1200 0a00 0100 6970766c616e 0000 1400 0200 0600 0100 0000 0000 0600 0200 0000 0000`,
    },
    {
      command: "ip link add link d0 name x type ipvlan mode l3s vepa",
      kind: "ipvlan",
      data: { mode: ipvlanModes.l3s, flags: ipvlanFlags.vepa },
      captured: hex`2400 1200 0a00 0100 6970766c616e 0000 1400 0200 0600 0100 0200 0000 0600 0200 0200 0000`,
    },
    {
      command: "ip link add link d0 name x type vlan id 101",
      kind: "vlan",
      data: { id: 101 },
      captured: hex`1800 1200 0800 0100 766c616e 0c00 0200 0600 0100 6500 0000`,
    },
    {
      command: "ip link add link d0 name x type vlan protocol 802.1ad id 4094",
      kind: "vlan",
      data: { id: 4094, protocol: vlanProtocols["802.1ad"] },
      captured: hex`2000 1200 0800 0100 766c616e 1400 0200 0600 0500 88a8 0000 0600 0100 fe0f 0000`,
    },
  ] as const)("$command", ({ kind, data, captured }) => {
    const parent = 3 as Ifindex
    const { payload } = requestOf((route) => addLink<typeof kind>(route, { name: "x", kind, parent, data }))
    const head = hex`00000000000000000000000000000000 0800 0500 03000000 0600 0300 7800 0000`
    expect(tree(payload, bridgeLayout)).toEqual(tree(new Uint8Array([...head, ...captured]), bridgeLayout))
    const sent = linkAttributes.decode(captured).linkInfo
    expect(linkKinds[kind].decode(sent?.data ?? new Uint8Array())).toEqual(data)
  })

  test("a link that is up from the start, with a master", () => {
    const { payload } = requestOf((route) =>
      addVeth(route, { name: "a", up: true, master: 3 as Ifindex }, { name: "b" }),
    )
    expect(payload.subarray(0, 32)).toEqual(hex`
      00 00 0000 00000000 01000000 01000000  # flags IFF_UP, change IFF_UP
      0600 0300 6100 0000
      0800 0a00 03000000`)
  })
})

describe("changing", () => {
  const change = (value: Parameters<typeof setLink>[2]) => requestOf((route) => setLink(route, v0, value))

  test("is one RTM_NEWLINK with the link's number", () => {
    // ip link set v0 up
    expect(change({ up: true })).toEqual({ type: 16, flags: 0x5, payload: hex`00000000 02000000 01000000 01000000` })
  })

  test.each([
    ["ip link set v0 down", { up: false }, hex`00000000 02000000 00000000 01000000`],
    ["ip link set v0 promisc on", { promiscuous: true }, hex`00000000 02000000 00010000 00010000`],
    ["ip link set v0 promisc off", { promiscuous: false }, hex`00000000 02000000 00000000 00010000`],
    ["ip link set v0 allmulticast on", { allMulticast: true }, hex`00000000 02000000 00020000 00020000`],
    ["ip link set v0 allmulticast off", { allMulticast: false }, hex`00000000 02000000 00000000 00020000`],
    ["ip link set v0 master br0", { master: 3 as Ifindex }, hex`0000000002000000 0000000000000000 0800 0a00 03000000`],
    ["ip link set v0 nomaster", { master: 0 }, hex`0000000002000000 0000000000000000 0800 0a00 00000000`],
    ["ip link set v0 name v1", { name: "v1" }, hex`0000000002000000 0000000000000000 0700 0300 763100 00`],
    ["ip link set v0 txqueuelen 77", { txQueueLength: 77 }, hex`0000000002000000 0000000000000000 0800 0d00 4d000000`],
    ["ip link set v0 netns PEER", { netnsFd: 4 }, hex`0000000002000000 0000000000000000 0800 1c00 04000000`],
    [
      "ip link set v0 mtu 1300 address 0a:00:00:00:00:03",
      { mtu: 1300, mac: "0a:00:00:00:00:03" },
      hex`0000000002000000 0000000000000000 0800 0400 14050000 0a00 0100 0a0000000003 0000`,
    ],
  ] as const)("%s", (_, value, payload) => {
    expect(change(value)).toEqual({ type: 16, flags: 0x5, payload })
  })

  // ip link set v0 alias hello: iproute2 omits the NUL, which the kernel allows here
  test("an alias is a text like the others", () => {
    const { payload } = change({ alias: "hello" })
    expect(payload).toEqual(hex`0000000002000000 0000000000000000 0a00 1400 68656c6c6f00 0000`)
    const captured = hex`0000000002000000 0000000000000000 0900 1400 68656c6c6f 000000`
    expect(tree(payload, { header: 16, texts: [20] })).toEqual(tree(captured, { header: 16, texts: [20] }))
  })

  test("several things at once travel together", () => {
    const { payload } = change({ up: true, promiscuous: false, mtu: 1300, name: "v1" })
    expect(payload).toEqual(hex`
      00 00 0000 02000000 01000000 01010000
      0800 0400 14050000
      0700 0300 763100 00`)
  })

  test("says what it was about to do when it is refused", () => {
    const kernel = new ScriptedKernel((request) => [acknowledge(request, 1)])
    const route = new NetlinkSocket(NETLINK_ROUTE, 0, kernel)
    expect(() => setLink(route, v0, { up: true, mtu: 10 })).toThrow('set up, mtu of link "v0": EPERM')
    expect(() => deleteLink(route, v0)).toThrow('delete link "v0": EPERM')
    expect(() => addLink(route, { kind: "bridge", name: "br0", data: {} })).toThrow('create bridge "br0": EPERM')
    expect(() => addVeth(route, { name: "a" }, { name: "b" })).toThrow('create veth pair "a" and "b": EPERM')
  })
})

describe("an ifb", () => {
  // ip link add bwptest mtu 1500 txqueuelen 1000 type ifb
  test("is nothing but its kind", () => {
    const captured = hex`00000000 00000000 00000000 00000000
      0800 0400 dc050000 0800 0d00 e8030000 0c00 0300 6277707465737400 0c00 1200 0700 0100 69666200`
    const ifb = { kind: "ifb", name: "bwptest", mtu: 1500, txQueueLength: 1000 } as const
    const layout = { header: 16, nested: { 18: { texts: [1] } }, texts: [3] }
    expect(tree(requestOf((route) => addLink(route, ifb)).payload, layout)).toEqual(tree(captured, layout))
  })

  // ip link add link uplink link-netnsid 3 name eth0 type macvlan, where uplink has index 5 in the other namespace
  test("a parent in another namespace is named by its index there and by that namespace's nsid", () => {
    const spec = { kind: "macvlan", name: "eth0", parent: 5 as Ifindex, parentNsid: 3 } as const
    expect(requestOf((route) => addLink(route, spec)).payload).toEqual(hex`
      00000000000000000000000000000000
      0900 0300 6574683000 000000   # IFLA_IFNAME "eth0"
      0800 0500 05000000            # IFLA_LINK 5
      0800 2500 03000000            # IFLA_LINK_NETNSID 3
      1000 1280                     # IFLA_LINKINFO | NLA_F_NESTED
        0c00 0100 6d6163766c616e00  # IFLA_INFO_KIND "macvlan"`)
  })

  test("with an alias is two requests in one datagram, and the first refusal is the error", () => {
    const kernel = new ScriptedKernel((request) => [acknowledge(request)])
    addAliasedLink(new NetlinkSocket(NETLINK_ROUTE, 0, kernel), { kind: "ifb", name: "x" }, "a/b/c")
    expect(kernel.datagrams).toHaveLength(1)
    expect(kernel.requests.map(({ type, flags }) => ({ type, flags }))).toEqual([
      { type: 16, flags: 0x601 },
      { type: 16, flags: 0x5 },
    ])
    const aliases = kernel.requests.map(({ payload }) => linkAttributes.decode(payload.subarray(16)))
    expect(aliases).toMatchObject([{ name: "x" }, { name: "x", alias: "a/b/c" }])
    const pair = new ScriptedKernel((request) => [acknowledge(request)])
    addVeth(new NetlinkSocket(NETLINK_ROUTE, 0, pair), { name: "v0", alias: "a/b/c" }, { name: "eth0" })
    expect(pair.datagrams).toHaveLength(1)
    const ends = pair.requests.map(({ payload }) => linkAttributes.decode(payload.subarray(16)))
    expect(ends.map(({ name, alias }) => ({ name, alias }))).toEqual([
      { name: "v0", alias: undefined },
      { name: "v0", alias: "a/b/c" },
    ])
    let errno = 95
    const refusing = new ScriptedKernel((request) => [acknowledge(request, errno--)])
    const add = () => addAliasedLink(new NetlinkSocket(NETLINK_ROUTE, 0, refusing), { kind: "ifb", name: "x" }, "a")
    expect(add).toThrow('create ifb "x": EOPNOTSUPP')
  })
})

// ip link del br0
test("deleting names the link by its number", () => {
  expect(requestOf((route) => deleteLink(route, linkNumber(3, "br0")))).toEqual({
    type: 17,
    flags: 0x5,
    payload: hex`00000000 03000000 00000000 00000000`,
  })
  const { payload } = requestOf((route) => deleteLink(route, linkNumber(3, "br0"), 7))
  expect(payload).toEqual(hex`00000000 03000000 00000000 00000000 08002e00 07000000`) // IFLA_TARGET_NETNSID
})

// The kernel's answer to `ip link show dev v0` (Linux 6.18). v0 is a veth that is up, has an alias and is a port of a
// bridge with hairpin on. IFLA_STATS, IFLA_STATS64, IFLA_AF_SPEC and counters of the port are left out.
const linkAnswer = hex`
  00 00 0100 02000000 43100100 00000000  # struct ifinfomsg: ARPHRD_ETHER, index 2, flags
  0700 0300 763000 00                    # IFLA_IFNAME
  0800 0d00 e8030000                     # IFLA_TXQLEN 1000
  0500 1000 06 000000                    # IFLA_OPERSTATE up
  0500 1100 00 000000
  0500 4300 00 000000
  0800 0400 78050000                     # IFLA_MTU 1400
  0800 3200 44000000                     # IFLA_MIN_MTU 68
  0800 3300 ffff0000                     # IFLA_MAX_MTU 65535
  0800 1b00 00000000
  0800 1e00 01000000                     # IFLA_PROMISCUITY 1
  0800 3d00 01000000                     # IFLA_ALLMULTI 1
  0800 1f00 02000000                     # IFLA_NUM_TX_QUEUES
  0800 2800 ffff0000
  0800 2900 00000100
  0800 2000 02000000                     # IFLA_NUM_RX_QUEUES
  0800 0a00 03000000                     # IFLA_MASTER 3
  0500 2100 01 000000                    # IFLA_CARRIER
  0a00 1400 68656c6c6f00 0000            # IFLA_IFALIAS "hello"
  0800 2300 02000000
  0500 2700 00 000000
  0a00 0100 0a0000000001 0000            # IFLA_ADDRESS
  0a00 0200 ffffffffffff 0000            # IFLA_BROADCAST
  4c00 1200                              # IFLA_LINKINFO
    0900 0100 7665746800 000000          # IFLA_INFO_KIND "veth"
    0b00 0400 62726964676500 00          # IFLA_INFO_SLAVE_KIND "bridge"
    3000 0500                            # IFLA_INFO_SLAVE_DATA
      0500 0100 03 000000                # IFLA_BRPORT_STATE forwarding
      0600 0200 2000 0000                # IFLA_BRPORT_PRIORITY 32
      0800 0300 02000000                 # IFLA_BRPORT_COST 2
      0500 0400 01 000000                # IFLA_BRPORT_MODE hairpin
      0c00 0d00 80000a0000000003         # IFLA_BRPORT_ROOT_ID
  0800 2500 00000000                     # IFLA_LINK_NETNSID 0
  0800 0500 02000000                     # IFLA_LINK 2
  0c00 0600 6e6f717565756500             # IFLA_QDISC "noqueue"
  0400 3e80`

const message = (payload: Uint8Array): Message => ({ type: 16, flags: 0, sequence: 1, payload })

describe("reading", () => {
  test("gives what the kernel says of a link", () => {
    const link = readLink(message(linkAnswer))
    expect(link).toMatchObject({
      index: 2,
      name: "v0",
      flags: 0x11043, // BROADCAST, MULTICAST, UP, LOWER_UP, RUNNING
      type: 1,
      mac: "0a:00:00:00:00:01",
      mtu: 1400,
      kind: "veth",
      attributes: {
        broadcast: "ff:ff:ff:ff:ff:ff",
        txQueueLength: 1000,
        operState: 6,
        promiscuity: 1,
        allMulti: 1,
        txQueues: 2,
        rxQueues: 2,
        master: 3,
        carrier: 1,
        alias: "hello",
        linkNetnsId: 0,
        link: 2,
        group: 0,
        linkInfo: { kind: "veth", slaveKind: "bridge" },
      },
    })
    const port = bridgePortData.decode(link.attributes.linkInfo?.slaveData ?? hex``)
    expect(port).toMatchObject({ hairpin: 1 })
    expect(link.attributes.unknown?.map(({ type }) => type)).toEqual([17, 67, 50, 51, 40, 41, 35, 39, 62])
    expect(link.attributes.qdisc).toBe("noqueue")
  })

  // ip tuntap add name x0 mode tap user 1000 group 1001 multi_queue vnet_hdr; strace -e read=3 ip -d link show dev x0
  test("a tap names its owner and its features", () => {
    const captured = hex`
      0500 0300 02 000000
      0800 0100 e8030000
      0800 0200 e9030000
      0500 0400 00 000000
      0500 0500 01 000000
      0500 0600 01 000000
      0500 0700 01 000000
      0800 0800 00000000
      0800 0900 00000000`
    const { unknown, ...data } = linkKinds.tun.decode(captured)
    expect(data).toEqual({ type: 2, owner: 1000, group: 1001, multiQueue: 1 })
    expect(unknown?.map(({ type }) => type)).toEqual([4, 5, 6, 8, 9])
    expectOnlyDecodeErrors(linkKinds.tun.decode, captured)
  })

  test("a link that says nothing but its number has empty properties", () => {
    expect(readLink(message(hex`00 00 0403 01000000 49000100 00000000`))).toMatchObject({
      index: 1,
      name: "",
      type: 772,
      mac: "",
      mtu: 0,
      kind: "",
    })
  })

  test("any payload gives a link or a DecodeError", () => {
    expectOnlyDecodeErrors((payload) => readLink(message(payload)), linkAnswer)
    expectOnlyDecodeErrors(linkKinds.bridge.decode)
    expectOnlyDecodeErrors(bridgePortData.decode)
  })
})

describe("looking up", () => {
  /** Returns a kernel that answers with the link above for every name that ends in "0" and for index 2. */
  function kernelWithV0() {
    return new ScriptedKernel((request) => {
      const known = request.payload.includes(0x30) || request.payload[4] === 2
      return [known ? encodeMessage(16, 0, request.sequence, linkAnswer) : acknowledge(request, 19)]
    })
  }

  test("by name asks for it without counters", () => {
    const kernel = kernelWithV0()
    expect(getLink(new NetlinkSocket(NETLINK_ROUTE, 0, kernel), "v0").index).toBe(2 as Ifindex)
    expect(kernel.datagrams).toEqual([
      hex`
        30000000 1200 0100 01000000 00000000   # RTM_GETLINK, REQUEST
        00 00 0000 00000000 00000000 00000000
        0700 0300 763000 00                    # IFLA_IFNAME
        0800 1d00 08000000                     # IFLA_EXT_MASK RTEXT_FILTER_SKIP_STATS`,
    ])
  })

  test("by number", () => {
    const kernel = kernelWithV0()
    expect(getLink(new NetlinkSocket(NETLINK_ROUTE, 0, kernel), 2 as Ifindex).name).toBe("v0")
    expect(kernel.requests[0]?.payload).toEqual(hex`00 00 0000 02000000 00000000 00000000 0800 1d00 08000000`)
  })

  test("by a name too long for a link's own asks for an alternative name", () => {
    const kernel = kernelWithV0()
    getLink(new NetlinkSocket(NETLINK_ROUTE, 0, kernel), "a-name-of-16-ch0")
    expect(kernel.requests[0]?.payload).toEqual(hex`
      00000000000000000000000000000000
      1500 3500 612d6e616d652d6f662d31362d63683000 000000  # IFLA_ALT_IFNAME
      0800 1d00 08000000`)
  })

  test("what does not exist throws ENODEV, or is undefined for findLink", () => {
    const route = new NetlinkSocket(NETLINK_ROUTE, 0, kernelWithV0())
    expect(() => getLink(route, "v1")).toThrow('find link "v1": ENODEV')
    expect(() => getLink(route, 7 as Ifindex)).toThrow("find link number 7: ENODEV")
    expect(findLink(route, "v1")).toBeUndefined()
    expect(findLink(route, "v0")?.name).toBe("v0")
    expect(findLink(route, "v0\0")).toBeUndefined()
    expect(() => getLink(route, "v0\0")).toThrow("ENODEV")
  })

  test("another error is not taken for absence", () => {
    const kernel = new ScriptedKernel((request) => [acknowledge(request, 1)])
    expect(() => findLink(new NetlinkSocket(NETLINK_ROUTE, 0, kernel), "v0")).toThrow("EPERM")
  })

  test("all of them", () => {
    expect(listLinks(listing(linkAnswer, linkAnswer)).map(({ name }) => name)).toEqual(["v0", "v0"])
  })

  test("while they change during each attempt: what any attempt has seen, each once, but for what is not wanted any more", () => {
    const withIndex = (index: number, flags = 0) => {
      const payload = linkAnswer.slice()
      new DataView(payload.buffer).setUint32(4, index, true) // struct ifinfomsg
      new DataView(payload.buffer).setUint32(8, flags, true)
      return payload
    }
    let attempts = 0
    const kernel = new ScriptedKernel(({ sequence }) => {
      attempts++
      const links = [withIndex(2), ...(attempts === 1 ? [withIndex(3), withIndex(5)] : [withIndex(5, IFF_UP)])]
      if (attempts === 2) links.push(withIndex(4))
      const entries = links.map((payload) => encodeMessage(16, 2 | NLM_F_DUMP_INTR, sequence, payload))
      return [...entries, done({ sequence })]
    })
    const found = listLinks(new NetlinkSocket(NETLINK_ROUTE, 0, kernel), ({ flags }) => !(flags & IFF_UP))
    expect(found.map(({ index }) => Number(index)).sort()).toEqual([2, 3, 4])
    expect(attempts).toBe(3)
  })

  // IFLA_TARGET_NETNSID, <linux/if_link.h>, for which iproute2 6.1.0 has no option.
  test("those of another namespace, by its number, which may be 0", () => {
    const kernel = new ScriptedKernel((request) => [done(request)])
    listLinksInside(new NetlinkSocket(NETLINK_ROUTE, 0, kernel), 0, () => true)
    expect(kernel.requests[0]?.payload).toEqual(
      hex`00000000000000000000000000000000 0800 2e00 00000000 0800 1d00 08000000`,
    )
  })

  // From `ip link show type ifb` and `ip link show master NAME`: IFLA_LINKINFO with IFLA_INFO_KIND; IFLA_MASTER.
  test("those of a kind, or of a master, which the kernel picks out, and an old one does not", () => {
    const script = (request: Message) => [encodeMessage(16, 2, request.sequence, linkAnswer), done(request)]
    const kernel = new ScriptedKernel(script)
    const route = new NetlinkSocket(NETLINK_ROUTE, 0, kernel)
    const all = () => true
    expect(listLinks(route, all, { kind: "ifb" })).toEqual([])
    expect(listLinks(route, all, { kind: "veth" }).map(({ name }) => name)).toEqual(["v0"])
    expect(listLinks(route, all, { master: 7 as Ifindex })).toEqual([])
    expect(kernel.requests.map(({ payload }) => payload.subarray(16))).toEqual([
      hex`0c00 1280 0800 0100 69666200 0800 1d00 08000000`,
      hex`1000 1280 0900 0100 7665746800 000000 0800 1d00 08000000`,
      hex`0800 0a00 07000000 0800 1d00 08000000`,
    ])
  })

  test("a namespace that no longer exists has no links", () => {
    const kernel = new ScriptedKernel((request) => [acknowledge(request, 22)])
    expect(listLinksInside(new NetlinkSocket(NETLINK_ROUTE, 0, kernel), 5, () => true)).toEqual([])
  })

  // From the answer to `ip -n c link show`, after
  //   ip -n c link property add dev eth0 altname lab:ctr:eth0
  test("with its alternative names", () => {
    const names = hex`1800 3480 1100 3500 6c61623a6374723a65746830 00 000000`
    const [link] = listLinks(listing(new Uint8Array([...linkAnswer, ...names])))
    expect(link?.attributes.altNames).toEqual(["lab:ctr:eth0"])
  })
})

// IFLA_AF_SPEC, AF_INET, IFLA_INET_CONF: a u32 for each IPV4_DEVCONF_*, counted from 1; arp_ignore is number 19,
// <linux/ip.h>
test("a brief link has arp_ignore of its IPv4 settings, and drops unknown attributes", () => {
  const settings = new Uint8Array(4 * 33)
  settings[4 * 18] = 8
  const others = [attribute(10, new Uint8Array(8)), attribute(2, attribute(1, settings))]
  const bytes = concat([attribute(3, new TextEncoder().encode("eth0\0")), hex`0500 1100 06000000`])
  expect(briefLinkAttributes.decode(concat([bytes, attribute(26, concat(others))]))).toEqual({
    name: "eth0",
    settings: { inet: { arpIgnore: 8 } },
  })
})
