import { describe, expect, test } from "bun:test"
import type { NodeAttachment, NodeRoute } from "../node/mod.ts"
import {
  checkAdvertisedRoutes,
  checkBridgeFiltering,
  checkConntrack,
  checkForwarding,
  checkIpv6,
  checkNeighbourTables,
  checkReversePath,
} from "./kernel.ts"
import { attachmentOf, cachedOf, inputOf, linkOf, memberOf, type Parts, printed } from "./testing/inputs.ts"

const members = [memberOf({ type: "bridge" })]
const bridge = linkOf(3, "cni0", { kind: "bridge" })
const links = [bridge]
const veth = linkOf(4, "veth1", { master: 3 })
const both = attachmentOf({ link: veth, addresses: ["10.85.0.2/24", "fd00::2/64"] })

describe("forwarding", () => {
  const [IPV4, IPV6] = ["net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"]
  const found = (sysctls: Record<string, string>, ...attachments: NodeAttachment[]) =>
    printed(checkForwarding(inputOf({ members: gateway, links, attachments, sysctls })))
  const gateway = [memberOf({ type: "bridge", bridge: "cni0", isGateway: true })]
  const off = (path: string, dotted: string, count = 1) => `error forwarding-off
${path} is 0, and ${count > 1 ? `${count} containers are attached: "pods/c1/eth0", "pods/c2/eth0"` : "1 container is attached"}
the kernel does not forward packets between containers and other networks
sysctl -w ${dotted}=1`

  test("is off in a family in which containers have addresses", () => {
    const zero = { [IPV4]: "0", [IPV6]: "0" }
    expect(found(zero, both)).toEqual([off(IPV4, "net.ipv4.ip_forward"), off(IPV6, "net.ipv6.conf.all.forwarding")])
    const four = { ...both, addresses: ["10.85.0.2/24"] }
    const six = { ...both, addresses: ["fd00::2/64"] }
    expect(found(zero, four, { ...four, containerId: "c2" })).toEqual([off(IPV4, "net.ipv4.ip_forward", 2)])
    expect(found(zero, six)).toEqual([off(IPV6, "net.ipv6.conf.all.forwarding")])
    expect(found({ [IPV4]: "1", [IPV6]: "1" }, both)).toEqual([])
    expect(found({}, both)).toEqual([])
  })

  test("does not matter to containers of an isolated bridge", () => {
    const sysctls = { [IPV4]: "0", [IPV6]: "0" }
    const isolated = [memberOf({ type: "bridge", bridge: "cni0" })]
    expect(checkForwarding(inputOf({ members: isolated, links, attachments: [both], sysctls }))).toEqual([])
  })

  test("does not matter to containers that are gone, or have no end on the host", () => {
    const { link: _, ...without } = both
    expect(
      found(
        { [IPV4]: "0", [IPV6]: "0" },
        without,
        { ...both, isAlive: false },
        { ...both, link: { ...veth, nsid: 1 } },
      ),
    ).toEqual([])
  })

  test("is off for one interface while it is on for all", () => {
    const one = { "net/ipv4/conf/cni0/forwarding": "0", "net/ipv4/conf/veth1/forwarding": "1" }
    expect(found({ ...one, [IPV4]: "1" }, both)).toEqual([
      `error forwarding-off-link
net/ipv4/conf/cni0/forwarding is 0, but net/ipv4/ip_forward is 1
the kernel forwards no packet from these interfaces
sysctl -w net.ipv4.conf.cni0.forwarding=1`,
    ])
    expect(found({ ...one, [IPV4]: "0" })).toEqual([])
  })
})

describe("router advertisements", () => {
  const settings = (accepted: string, forwarding = "1") => ({
    "net/ipv6/conf/uplink/accept_ra": accepted,
    "net/ipv6/conf/uplink/forwarding": forwarding,
  })
  const uplink = linkOf(2, "uplink", { isAutoconfigured: true })
  const found = (sysctls: Record<string, string>, link = uplink, routes: readonly NodeRoute[] = []) =>
    checkAdvertisedRoutes(inputOf({ links: [link], sysctls, routes })).map(
      ({ rule, severity }) => `${severity} ${rule}`,
    )

  test("are missed where the host forwards and the link, which has addresses by them, heeds none", () => {
    expect(found(settings("1"))).toEqual(["error router-ignored"])
    const byHand = { dst: "::/0", gateway: "fe80::1", dev: "uplink", protocol: 3 }
    expect(found(settings("1"), uplink, [byHand])).toEqual(["warning router-ignored"])
  })

  test("are not missed where they are heeded, refused, never came, or their route is there", () => {
    for (const [accepted, forwarding] of [
      ["2", "1"],
      ["0", "1"],
      ["1", "0"],
    ])
      expect(found(settings(accepted ?? "", forwarding))).toEqual([])
    expect(found(settings("1"), linkOf(2, "uplink"))).toEqual([])
    expect(found(settings("1"), { ...uplink, nsid: 1 })).toEqual([])
    expect(found(settings("1"), uplink, [{ dst: "::/0", dev: "uplink", protocol: 9 }])).toEqual([])
  })
})

test("strict reverse path filtering is the larger of that for all and the interface's own", () => {
  const found = (all: string | undefined, own: string) => {
    const sysctls = {
      "net/ipv4/conf/cni0/rp_filter": own,
      ...(all === undefined ? {} : { "net/ipv4/conf/all/rp_filter": all }),
    }
    return printed(checkReversePath(inputOf({ members, links, sysctls })))
  }
  const strict = (name: string) => `warning rp-filter-strict
rp_filter of cni0 is strict (1)
the kernel silently drops packets of containers that have several interfaces, or whose answers take another route
sysctl -w net.ipv4.conf.${name}.rp_filter=2`
  expect(found("0", "1")).toEqual([strict("cni0")])
  expect(found(undefined, "1")).toEqual([strict("cni0")])
  expect(found("1", "0")).toEqual([strict("all")])
  expect([found("2", "1"), found("1", "2"), found("0", "0")]).toEqual([[], [], []])
  expect(checkReversePath(inputOf({ members, links, sysctls: {} }))).toEqual([])
})

test("settings of a bridge's ports, which the kernel does not ask, say nothing", () => {
  const sysctls = {
    "net/ipv4/conf/veth7/rp_filter": "1",
    "net/ipv4/conf/veth7/forwarding": "0",
    "net/ipv4/ip_forward": "1",
  }
  const found = (bridge: object, link: object) => {
    const links = [linkOf(3, "cni0", bridge)]
    const input = inputOf({
      members,
      links,
      sysctls,
      attachments: [attachmentOf({ link: linkOf(7, "veth7", link) })],
    })
    return [...checkReversePath(input), ...checkForwarding(input)].map(({ rule }) => rule)
  }
  expect(found({ kind: "bridge" }, { master: 3 })).toEqual([])
  expect(found({ kind: "vrf" }, { master: 3 })).toEqual(["rp-filter-strict", "forwarding-off-link"])
  expect(found({ kind: "bridge" }, {})).toEqual(["rp-filter-strict", "forwarding-off-link"])
})

describe("frames between containers of one bridge", () => {
  const CALL = "net/bridge/bridge-nf-call-iptables"
  const pod = { ...both, pod: { namespace: "shop", name: "web" } }
  const found = (called: string | undefined, parts: Parts = {}) =>
    printed(
      checkBridgeFiltering(
        inputOf({
          members,
          attachments: [both, pod],
          sysctls: called === undefined ? {} : { [CALL]: called },
          ...parts,
        }),
      ),
    )
  const off = (what: string, before = "") => `warning br-netfilter-off
${what}
a pod cannot reach a Service through an endpoint on the same node
${before}sysctl -w net.bridge.bridge-nf-call-iptables=1`

  test("do not pass the rules for services, which pods need", () => {
    expect(found("0")).toEqual([off("net/bridge/bridge-nf-call-iptables is 0")])
    expect(found(undefined)).toEqual([off("the module br_netfilter is not loaded", "modprobe br_netfilter; ")])
    expect(found("1")).toEqual([])
    expect(found("0", { attachments: [both] })).toEqual([])
    expect(found("0", { members: [] })).toEqual([])
    expect(found("0", { attachments: [] })).toEqual([])
  })
})

test("the table of connections is nearly full, or full", () => {
  const [COUNT, MAX] = ["net/netfilter/nf_conntrack_count", "net/netfilter/nf_conntrack_max"]
  const found = (count: string, max: string) =>
    printed(checkConntrack(inputOf({ sysctls: { [COUNT]: count, [MAX]: max } })))
  const remedy = "sysctl -w net.netfilter.nf_conntrack_max=200"
  expect(found("80", "100")).toEqual([
    `warning conntrack-full
80 of 100 connections are tracked (80 %)
when the table is full, the kernel drops new connections of the host and all containers
${remedy}`,
  ])
  expect(found("100", "100")).toEqual([
    `error conntrack-full
100 of 100 connections are tracked (100 %)
the kernel drops new connections of the host and all containers
${remedy}`,
  ])
  expect([found("79", "100"), found("0", "0"), found("5", "0")]).toEqual([[], [], []])
  expect(checkConntrack(inputOf())).toEqual([])
})

test("IPv6 is off on the bridge of containers that have IPv6 addresses", () => {
  const sysctls = { "net/ipv6/conf/cni0/disable_ipv6": "1" }
  const found = (more: Partial<NodeAttachment> = {}, parts: Parts = {}) =>
    printed(checkIpv6(inputOf({ members, links, sysctls, ...parts, attachments: [{ ...both, ...more }] })))
  const off = `error ipv6-disabled (pods)
net/ipv6/conf/cni0/disable_ipv6 is 1, but containers on it have IPv6 addresses
their gateway has no IPv6 address and does not answer
sysctl -w net.ipv6.conf.cni0.disable_ipv6=0`
  expect(found()).toEqual([off])
  const ips = [
    { address: "fd00::2/64", gateway: "fd00::1" },
    { address: "10.85.0.2/24", gateway: "10.85.0.1" },
  ]
  const gateway = {
    result: { interfaces: [], ips, routes: [], dns: {} },
    ...cachedOf([{ type: "bridge", isGateway: true }]),
  }
  expect(found(gateway)[0]).toEndWith("disable_ipv6=0; ip address replace fd00::1/64 dev cni0 nodad")
  expect(found({ addresses: ["fd00::2"] })).toEqual([off])
  expect(found({ addresses: ["10.85.0.2/24", "10.85.0.2", "x"] })).toEqual([])
  expect(found({}, { sysctls: {} })).toEqual([])
  expect(found({}, { members: [] })).toEqual([])
  expect(found({}, { links: [linkOf(3, "cni0", { nsid: 1 })] })).toEqual([])
  expect(found({ link: linkOf(4, "veth1") })).toEqual([])
})

describe("the kernel's tables of neighbours", () => {
  const found = (entries: number, most = 1024, refused = 0) =>
    printed(
      checkNeighbourTables(
        inputOf({
          tables: {
            neighbourTables: [{ family: 10, entries: 9 * entries, most, refused }],
            countedNeighbours: new Map([[10, entries]]),
          },
        }),
      ),
    )

  test("are nearly full at 80 % of their limit, which the remedy doubles", () => {
    expect(found(819)).toEqual([])
    expect(found(820)).toEqual([
      `warning neighbours-full
the kernel's table of IPv6 neighbors has 820 of 1024 entries, including those of containers
when the table is full, the kernel cannot add neighbors: connections of the host and of containers fail with "No buffer space available", or hang
sysctl -w net.ipv6.neigh.default.gc_thresh3=2048`,
    ])
    expect(found(5000)[0]).toEndWith("gc_thresh3=2048")
  })

  test("are a fault once they have refused a neighbor, not where the kernel drops what it can do without", () => {
    expect(found(1024)[0]).toStartWith("warning neighbours-full")
    expect(found(1024, 1024, 7)[0]).toStartWith(
      "error neighbours-full\nthe kernel's table of IPv6 neighbors has 1024 of 1024 entries, including those of containers, and has rejected 7 since",
    )
    expect(found(819, 1024, 7)).toEqual([])
  })

  test("are no fault where the kernel tells no limit", () => {
    expect(found(7, 0)).toEqual([])
  })
})
