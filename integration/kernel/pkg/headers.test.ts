/**
 * Compares the numbers in the sources with the kernel's headers, which a C compiler reads. The numbers are constants
 * with the kernel's names, and tables of attributes, whose properties have names of this project.
 */
import { beforeAll, expect, test } from "bun:test"
import { join } from "node:path"
import * as libc from "../../../pkg/libc/mod.ts"
import * as netlink from "../../../pkg/netlink/mod.ts"
import * as nftables from "../../../pkg/nftables/testing.ts"
import { mustRun, TemporaryDirectory } from "../../lab/mod.ts"

const root = join(import.meta.dir, "../../..")

const headers = `
  sys/socket.h net/if.h netinet/in.h fcntl.h unistd.h sys/inotify.h sys/stat.h sys/file.h signal.h poll.h sched.h
  sys/mount.h sys/vfs.h sys/resource.h sys/wait.h spawn.h elf.h errno.h linux/if_packet.h linux/if_ether.h net/if_arp.h linux/rtnetlink.h
  linux/netlink.h linux/if_link.h linux/if_addr.h linux/if_bridge.h linux/veth.h linux/net_namespace.h linux/neighbour.h
  linux/fib_rules.h linux/if.h linux/if_tun.h linux/pkt_sched.h linux/pkt_cls.h linux/nsfs.h linux/magic.h linux/tc_act/tc_mirred.h
  linux/netfilter.h linux/netfilter/nf_tables.h linux/netfilter/nfnetlink.h linux/netfilter/nfnetlink_conntrack.h`
  .trim()
  .split(/\s+/)
  .map((name) => `#include <${name}>`)
  .join("\n")

/** Constants of the sources with a name that a header uses for something else. */
const ofOurOwn = new Set(["LITTLE_ENDIAN", "BIG_ENDIAN"])

/** Returns the constants of all sources that have the kernel's name, such as `export const RTM_NEWLINK = 16`. */
async function constants(): Promise<Map<string, bigint>> {
  const literal = String.raw`-?(?:0x[\da-f]+|0o[0-7]+|\d[\d_]*)n?`
  const pattern = new RegExp(
    `^(?:export )?const ([A-Z][A-Z0-9]*_[A-Z0-9_]+)(?:: \\w+)? = (${literal})( >>> 0)?(?: //.*)?$`,
    "gm",
  )
  const found = new Map<string, bigint>()
  for (const file of new Bun.Glob("{pkg,plugins,ipam,meta}/**/*.ts").scanSync(root))
    for (const [, name = "", value = ""] of (await Bun.file(join(root, file)).text()).matchAll(pattern)) {
      const number = value.replace(/[_n]/g, "")
      found.set(name, number.startsWith("-") ? -BigInt(number.slice(1)) : BigInt(number))
    }
  return found
}

const tables = { ...netlink.linkKinds, ...netlink.qdiscKinds, ...netlink.filterKinds }
const rules = nftables.expressionTables

type Fields = Readonly<Record<string, readonly [type: number, codec: unknown]>>

/** Returns the fields of a table that is nested in another one. */
const inside = (table: { fields: Fields }, name: string): { fields: Fields } =>
  table.fields[name]?.[1] as { fields: Fields }

/** Tables of attributes: the prefix of the kernel's names, the table, and the names in the order of its properties. */
const attributes: readonly (readonly [prefix: string, table: { fields: Fields }, names: string])[] = [
  [
    "IFLA",
    netlink.linkAttributes,
    `ADDRESS BROADCAST IFNAME MTU QDISC LINK MASTER TXQLEN OPERSTATE LINKINFO IFALIAS
    GROUP NET_NS_FD EXT_MASK PROMISCUITY NUM_TX_QUEUES NUM_RX_QUEUES CARRIER AF_SPEC LINK_NETNSID PHYS_PORT_NAME
    TARGET_NETNSID XDP NEW_IFINDEX PROP_LIST ALT_IFNAME PERM_ADDRESS PARENT_DEV_NAME PARENT_DEV_BUS_NAME ALLMULTI`,
  ],
  ["IFLA_INFO", netlink.linkInfo, "KIND DATA SLAVE_KIND SLAVE_DATA"],
  ["IFLA", netlink.bridgePortAttributes, "IFNAME MASTER PROTINFO"],
  ["IFLA_BR", netlink.bridgeData, "STP_STATE VLAN_FILTERING VLAN_DEFAULT_PVID"],
  ["IFLA_BRPORT", netlink.bridgePortData, "STATE MODE LEARNING UNICAST_FLOOD MCAST_FLOOD BCAST_FLOOD ISOLATED LOCKED"],
  ["VETH_INFO", tables.veth, "PEER"],
  ["IFLA_MACVLAN", tables.macvlan, "MODE FLAGS BC_QUEUE_LEN"],
  ["IFLA_IPVLAN", tables.ipvlan, "MODE FLAGS"],
  ["IFLA_VLAN", tables.vlan, "ID PROTOCOL"],
  ["IFLA_VRF", tables.vrf, "TABLE"],
  ["IFLA_TUN", tables.tun, "OWNER GROUP TYPE MULTI_QUEUE"],
  ["TCA", netlink.trafficAttributes, "KIND OPTIONS CHAIN"],
  ["TCA_TBF", tables.tbf, "PARMS RATE64 BURST"],
  ["TCA_HTB", tables.htb, "INIT"],
  ["TCA_HTB", netlink.htbClass, "PARMS RATE64 CEIL64"],
  ["TCA_U32", tables.u32, "CLASSID SEL POLICE ACT"],
  ["TCA_MATCHALL", tables.matchall, "CLASSID ACT"],
  ["TCA_FLOWER", tables.flower, "CLASSID ACT"],
  ["TCA_BASIC", tables.basic, "CLASSID ACT"],
  ["TCA_FW", tables.fw, "CLASSID ACT"],
  ["TCA_BPF", tables.bpf, "ACT CLASSID OPS NAME FLAGS ID"],
  ["NFTA_TABLE", nftables.tableAttributes, "NAME FLAGS HANDLE USERDATA"],
  ["NFTA_CHAIN", nftables.chainAttributes, "TABLE HANDLE NAME HOOK POLICY TYPE USERDATA"],
  ["NFTA_HOOK", inside(nftables.chainAttributes, "hook"), "HOOKNUM PRIORITY DEV DEVS"],
  ["NFTA_RULE", nftables.ruleAttributes, "TABLE CHAIN HANDLE EXPRESSIONS USERDATA"],
  ["NFTA_RULE", nftables.commentedRuleAttributes, "TABLE CHAIN USERDATA"],
  ["NFTA_SET", nftables.setAttributes, "TABLE NAME FLAGS KEY_TYPE KEY_LEN DATA_TYPE DATA_LEN ID USERDATA"],
  ["NFTA_SET", nftables.setNameAttributes, "TABLE NAME"],
  ["NFTA_SET_ELEM", nftables.elementAttributes, "KEY DATA FLAGS USERDATA"],
  ["NFTA_SET_ELEM_LIST", nftables.elementListAttributes, "TABLE SET SET_ID ELEMENTS"],
  ["NFTA_SET_ELEM_LIST", nftables.rawElementListAttributes, "TABLE SET SET_ID ELEMENTS"],
  ["NFTA_GEN", nftables.generationAttributes, "ID PROC_PID PROC_NAME"],
  ["NFNL_BATCH", nftables.batchAttributes, "GENID"],
  ["NFTA_DATA", nftables.dataAttributes, "VALUE VERDICT"],
  ["NFTA_VERDICT", inside(nftables.dataAttributes, "verdict"), "CODE CHAIN"],
  ["NFTA_BITWISE", rules.bitwise, "SREG DREG OP LEN MASK XOR"],
  ["NFTA_CMP", rules.cmp, "SREG OP DATA"],
  ["NFTA_COUNTER", rules.counter, "BYTES PACKETS"],
  ["NFTA_CT", rules.ct, "DREG KEY DIRECTION SREG"],
  ["NFTA_FIB", rules.fib, "DREG RESULT FLAGS"],
  ["NFTA_IMMEDIATE", rules.immediate, "DREG DATA"],
  ["NFTA_LOOKUP", rules.lookup, "SET SREG DREG SET_ID FLAGS"],
  ["NFTA_MASQ", rules.masq, "FLAGS REG_PROTO_MIN REG_PROTO_MAX"],
  ["NFTA_META", rules.meta, "DREG KEY SREG"],
  ["NFTA_NAT", rules.nat, "TYPE FAMILY REG_ADDR_MIN REG_ADDR_MAX REG_PROTO_MIN REG_PROTO_MAX FLAGS"],
  ["NFTA_PAYLOAD", rules.payload, "DREG BASE OFFSET LEN"],
]

/**
 * Tables of values: the table, and the kernel's names in the order of its properties. A property without such a name
 * has `-`.
 */
const values: readonly (readonly [table: Readonly<Record<string, number>>, names: string])[] = [
  [netlink.OperState, "UNKNOWN NOTPRESENT DOWN LOWERLAYERDOWN TESTING DORMANT UP".replace(/\w+/g, "IF_OPER_$&")],
  [netlink.macvlanModes, "MACVLAN_MODE_PRIVATE MACVLAN_MODE_VEPA MACVLAN_MODE_BRIDGE MACVLAN_MODE_PASSTHRU"],
  [netlink.ipvlanModes, "IPVLAN_MODE_L2 IPVLAN_MODE_L3 IPVLAN_MODE_L3S"],
  [netlink.ipvlanFlags, "- IPVLAN_F_PRIVATE IPVLAN_F_VEPA"],
  [netlink.vlanProtocols, "ETH_P_8021Q ETH_P_8021AD"],
  [netlink.filterProtocols, "ETH_P_ALL ETH_P_IP ETH_P_IPV6"],
  [netlink.NeighbourState, "NUD_REACHABLE NUD_STALE NUD_FAILED NUD_NOARP NUD_PERMANENT"],
  [netlink.RouteGroup, "RTMGRP_LINK RTMGRP_IPV4_IFADDR RTMGRP_IPV4_ROUTE RTMGRP_IPV6_IFADDR RTMGRP_IPV6_ROUTE"],
  [netlink.RouteScope, "RT_SCOPE_UNIVERSE RT_SCOPE_SITE RT_SCOPE_LINK RT_SCOPE_HOST RT_SCOPE_NOWHERE"],
  [nftables.familyNumber, "NFPROTO_INET NFPROTO_IPV4 NFPROTO_ARP NFPROTO_NETDEV NFPROTO_BRIDGE NFPROTO_IPV6"],
  [nftables.hookNumber, "PRE_ROUTING LOCAL_IN FORWARD LOCAL_OUT POST_ROUTING".replace(/\w+/g, "NF_INET_$&")],
  [nftables.policyNumber, "NF_DROP NF_ACCEPT"],
  [libc.Open, "RDONLY WRONLY RDWR CREAT EXCL TRUNC APPEND NONBLOCK CLOEXEC".replace(/\w+/g, "O_$&")],
  [libc.Poll, "POLLIN POLLOUT"],
  [libc.Signal, "SIGINT SIGTERM"],
]

const kernelNames = ([prefix, , names]: (typeof attributes)[number]) =>
  names
    .split(/\s+/)
    .filter(Boolean)
    .map((name) => `${prefix}_${name}`)

/** The values that the headers define for names of the sources and tables, by name. */
let inHeaders: ReadonlyMap<string, bigint>
let ours: ReadonlyMap<string, bigint>

beforeAll(async () => {
  ours = await constants()
  const wanted = [
    ...ours.keys(),
    ...attributes.flatMap(kernelNames),
    ...values.flatMap(([, names]) => names.split(" ")),
  ]
  await using directory = await TemporaryDirectory.create("cni-headers")
  const [source, program] = [directory.join("headers.c"), directory.join("headers")]
  await Bun.write(source, `#define _GNU_SOURCE\n${headers}\n`)
  const words = new Set((await mustRun(["gcc", "-E", "-dD", source])).stdout.match(/\b[A-Z][A-Z0-9_]+\b/g))
  const lines = wanted
    .filter((name) => words.has(name) && !ofOurOwn.has(name))
    .map((name) => `printf("${name} %lld\\n", (long long)(${name}));`)
  await Bun.write(
    source,
    `#define _GNU_SOURCE\n#include <stdio.h>\n${headers}\nint main(void) {\n${lines.join("\n")}\n}\n`,
  )
  await mustRun(["gcc", "-w", "-o", program, source])
  const printed = (await mustRun([program])).stdout.trim().split("\n")
  inHeaders = new Map(printed.map((line) => [line.split(" ")[0] ?? "", BigInt(line.split(" ")[1] ?? "")]))
})

/** Returns the upper byte of a message type: `NFNL_SUBSYS_NFTABLES`, `NFNL_SUBSYS_CTNETLINK`. */
const subsystem = (name: string) =>
  name.startsWith("NFT_MSG_") ? 10n << 8n : name.startsWith("IPCTNL_") ? 1n << 8n : 0n

/** Numbers that the sources write differently: as 16 bits. */
const otherForms: Readonly<Record<string, bigint>> = { NLA_TYPE_MASK: 0x3fffn }

test("constants that have a name of the kernel have its number", () => {
  const same = [...ours].filter(([name]) => inHeaders.has(name))
  expect(same.length).toBeGreaterThan(150)
  const wrong = same.filter(
    ([name, value]) => value !== (otherForms[name] ?? subsystem(name) + (inHeaders.get(name) ?? 0n)),
  )
  expect(wrong).toEqual([])
})

test("attributes have the kernel's numbers", () => {
  for (const row of attributes) {
    const names = kernelNames(row)
    const numbers = Object.values(row[1].fields).map(([number]) => BigInt(number))
    expect(names.map((name, at) => [name, numbers[at]])).toEqual(names.map((name) => [name, inHeaders.get(name)]))
    expect(numbers).toHaveLength(names.length)
  }
})

test("values have the kernel's numbers", () => {
  for (const [table, list] of values) {
    const [names, numbers] = [list.split(" "), Object.values(table).map(BigInt)]
    expect(names.map((name, at) => [name, numbers[at]])).toEqual(
      names.map((name) => [name, name === "-" ? 0n : inHeaders.get(name)]),
    )
    expect(numbers).toHaveLength(names.length)
  }
})
