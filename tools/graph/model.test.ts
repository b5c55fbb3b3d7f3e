import { expect, test } from "bun:test"
import type { JsonObject } from "../../pkg/types/mod.ts"
import type { Node, NodeAttachment, NodeLink } from "../node/mod.ts"
import { graphOf } from "./model.ts"
import { countersOf } from "./testing/graphs.ts"

const linkOf = (index: number, name: string, more: Partial<NodeLink> = {}): NodeLink => ({
  index,
  name,
  kind: "",
  mac: "",
  mtu: 1500,
  isUp: true,
  state: "up",
  addresses: [],
  ...more,
})
const attachmentOf = (more: Partial<NodeAttachment> = {}, config?: object | string): NodeAttachment => ({
  network: "pods",
  containerId: "c1",
  ifName: "eth0",
  sources: [],
  addresses: [],
  ports: [],
  unservedPorts: [],
  rules: [],
  orphan: [],
  ...(config === undefined
    ? {}
    : {
        cached: {
          config: new TextEncoder().encode(typeof config === "string" ? config : JSON.stringify(config)),
        } as never,
      }),
  ...more,
})
const graph = (links: NodeLink[], attachments: NodeAttachment[], routes: Node["routes"] = []) =>
  graphOf({ links, routes, networks: [] } as unknown as Node, attachments)
const segments = (links: NodeLink[], attachments: NodeAttachment[]) => graph(links, attachments).segments
const listOf = (plugin: JsonObject) => ({ name: "pods", plugins: [plugin] })

const bridge = linkOf(3, "cni0", {
  kind: "bridge",
  mtu: 1450,
  isUp: false,
  addresses: ["10.85.0.1/24", "fe80::1/64"],
  counters: countersOf([1, 2]),
})
const veth = linkOf(4, "veth1", { kind: "veth", master: 3, mtu: 1450, counters: countersOf([1, 10], [2, 20]) })

test("the ports of a bridge are together, with all that is known of them", () => {
  const rules = [{ place: "ip cni_masquerade containers", backend: "nftables", owner: "" } as const]
  const config = listOf({ type: "bridge", bridge: "another" })
  const web = attachmentOf(
    {
      link: veth,
      rules,
      addresses: ["10.85.0.2/24"],
      ports: ["8080→80/tcp", "53→53/udp"],
      isAlive: true,
      orphan: ["x"],
      pod: { namespace: "shop", name: "web" },
    },
    config,
  )
  const other = attachmentOf({
    network: "lan",
    containerId: "c2",
    link: { ...veth, name: "veth2", vlanId: 5 },
    ports: ["1→1/tcp"],
  })
  expect(segments([bridge, veth], [web, other])).toEqual([
    {
      id: "segment cni0",
      kind: "bridge",
      title: "cni0",
      caption: "bridge",
      isUp: false,
      isThere: true,
      mtu: 1450,
      addresses: ["10.85.0.1/24"],
      networks: ["pods", "lan"],
      masquerades: true,
      ports: 3,
      counters: countersOf([1, 2]),
      members: [
        {
          id: "attachment lan/c2/eth0",
          title: "c2",
          network: "lan",
          containerId: "c2",
          ifName: "eth0",
          addresses: [],
          ports: ["1→1/tcp"],
          orphan: [],
          masquerades: false,
          hostEnd: "veth2",
          mtu: 1450,
          vlanId: 5,
          counters: countersOf([2, 20], [1, 10]),
        },
        {
          id: "attachment pods/c1/eth0",
          title: "web",
          namespace: "shop",
          network: "pods",
          containerId: "c1",
          ifName: "eth0",
          addresses: ["10.85.0.2/24"],
          ports: ["8080→80/tcp", "53→53/udp"],
          orphan: ["x"],
          masquerades: true,
          hostEnd: "veth1",
          mtu: 1450,
          isAlive: true,
          counters: countersOf([2, 20], [1, 10]),
          config,
        },
      ],
    },
  ])
})

test("without a port of it, the bridge is the one that the configuration names, or cni0", () => {
  const titles = (config: object | string) =>
    segments([bridge, linkOf(7, "br7", { kind: "bridge" })], [attachmentOf({}, config)]).map(({ title }) => title)
  expect(titles(listOf({ type: "bridge", bridge: "br7" }))).toEqual(["br7"])
  expect(titles({ name: "pods", type: "bridge", bridge: "br7" })).toEqual(["br7"])
  expect(titles(listOf({ type: "bridge" }))).toEqual(["cni0"])
  expect(titles(listOf({ type: "bridge", bridge: "gone" }))).toEqual(["pods"])
  expect(titles(listOf({ type: "ptp", bridge: "br7" }))).toEqual(["pods"])
})

test("a link in a container is not the port of a host's bridge of the same index, and no end on the host", () => {
  const inside = linkOf(9, "eth0", {
    kind: "veth",
    nsid: 2,
    master: 3,
    mtu: 1300,
    counters: countersOf([1, 10], [2, 20]),
  })
  const [segment] = segments([bridge, inside], [attachmentOf({ link: inside })])
  expect(segment).toMatchObject({ kind: "network", title: "pods", caption: "veth", isUp: true, addresses: [] })
  expect(segment).not.toHaveProperty("mtu")
  const [member] = segment?.members ?? []
  expect(member).toMatchObject({ mtu: 1300, counters: countersOf([1, 10], [2, 20]) })
  expect(member).not.toHaveProperty("hostEnd")
})

test.each(["macvlan", "ipvlan", "vlan"])("interfaces of %s are on their parent", (type) => {
  const [eth0, eth1] = [linkOf(1, "eth0", { mtu: 1400 }), linkOf(2, "eth1", { addresses: ["192.0.2.2/24"] })]
  const inside = linkOf(9, "net1", { kind: type, nsid: 2, peer: 1 })
  const own = (attachment: NodeAttachment) => segments([eth0, eth1, inside], [attachment])[0]
  const byName = own(attachmentOf({ link: inside }, listOf({ type, master: "eth1" })))
  expect(byName).toMatchObject({
    id: `segment ${type} eth1`,
    kind: "parent",
    title: "eth1",
    caption: `${type} on eth1`,
    uplink: "uplink eth1",
    mtu: 1500,
    addresses: ["192.0.2.2/24"],
  })
  const byIndex = own(attachmentOf({ link: inside }, listOf({ type })))
  expect(byIndex).toMatchObject({ id: `segment ${type} eth0`, title: "eth0", mtu: 1400 })
  expect(own(attachmentOf({ link: inside }))).toMatchObject({ title: "eth0", caption: `${type} on eth0` })
  expect(own(attachmentOf({}, listOf({ type, master: "gone" })))).toMatchObject({
    kind: "network",
    title: "pods",
    caption: type,
  })
})

test("others are together by network and plugin, and where nothing is known by network", () => {
  const of = (network: string, config?: object | string) => attachmentOf({ network, containerId: network }, config)
  const found = segments(
    [],
    [of("a", listOf({ type: "ptp" })), of("b", listOf({ type: "ptp" })), of("c"), of("d", "{")],
  )
  expect(found.map(({ id, caption, kind }) => [id, caption, kind])).toEqual([
    ["segment ptp a", "ptp", "network"],
    ["segment ptp b", "ptp", "network"],
    ["segment network c", "network", "network"],
    ["segment network d", "network", "network"],
  ])
  const odd = segments([], [of("a", { plugins: [null, { type: 5 }] })])
  expect(odd.map(({ caption }) => caption)).toEqual(["network"])
})

test("the largest segment comes first, and containers are in the order of people", () => {
  const of = (network: string, containerId: string) => attachmentOf({ network, containerId })
  const found = segments([], [of("a", "c1"), of("b", "web-10"), of("b", "web-9"), of("b", "Web-2")])
  expect(found.map(({ title, members }) => [title, ...members.map((one) => one.title)])).toEqual([
    ["b", "Web-2", "web-9", "web-10"],
    ["a", "c1"],
  ])
})

test.each([
  ["ip cni_masquerade containers", true],
  ["ip nat POSTROUTING", true],
  ["ip6 nat CNI-0123", true],
  ["ip nat PREROUTING", false],
  ["bridge cni_spoofing chain", false],
])("a rule in %s masquerades: %p", (place, masquerades) => {
  const rules = [{ place, backend: "iptables", owner: "" } as const]
  expect(segments([], [attachmentOf({ rules })])[0]?.masquerades).toBe(masquerades)
  const none = [{ ...rules[0], place: "elsewhere" } as never, ...rules]
  expect(segments([], [attachmentOf({ rules: none })])[0]?.members[0]?.masquerades).toBe(masquerades)
})

const ways = (links: NodeLink[], routes: Node["routes"] = [], attachments: NodeAttachment[] = []) =>
  graph(links, attachments, routes).uplinks

test("ways out have addresses that lead further than the link, and are not the containers' own", () => {
  const route = (dst: string, dev: string, gateway?: string) => ({
    dst,
    dev,
    protocol: 3,
    ...(gateway ? { gateway } : {}),
  })
  const address = { addresses: ["192.0.2.2/24"] }
  const links = [
    linkOf(1, "lo", { addresses: ["127.0.0.1/8"] }),
    linkOf(2, "eth0", { ...address, kind: "vlan", mtu: 1400, isUp: false, counters: countersOf([1]) }),
    linkOf(3, "eth1", { addresses: ["fe80::1/64"] }),
    linkOf(4, "eth2"),
    linkOf(5, "veth5", { ...address, kind: "veth" }),
    linkOf(6, "up4", { kind: "veth" }),
    linkOf(7, "up6", { kind: "veth" }),
    linkOf(8, "inside", { ...address, nsid: 3 }),
    linkOf(9, "eth9", { addresses: ["fe80::9/64", "2001:db8::9/64"] }),
  ]
  const routes = [
    route("0.0.0.0/0", "eth0", "192.0.2.1"),
    route("10.0.0.0/8", "eth0"),
    { ...route("192.0.2.0/24", "eth0"), protocol: 2 },
    route("10.1.0.0/16", "veth5"),
    route("0.0.0.0/0", "up4", "192.0.2.9"),
    route("::/0", "up6"),
  ]
  expect(ways(links, routes)).toEqual([
    {
      id: "uplink eth0",
      name: "eth0",
      kind: "vlan",
      mtu: 1400,
      isUp: false,
      addresses: ["192.0.2.2/24"],
      routes: ["default via 192.0.2.1", "10.0.0.0/8"],
      counters: countersOf([1]),
    },
    {
      id: "uplink up4",
      name: "up4",
      kind: "veth",
      mtu: 1500,
      isUp: true,
      addresses: [],
      routes: ["default via 192.0.2.9"],
    },
    { id: "uplink up6", name: "up6", kind: "veth", mtu: 1500, isUp: true, addresses: [], routes: ["default"] },
    {
      id: "uplink eth9",
      name: "eth9",
      kind: "device",
      mtu: 1500,
      isUp: true,
      addresses: ["2001:db8::9/64"],
      routes: [],
    },
  ])
})

test("a parent is a way out, also without an address; a bridge of containers is not, also with one", () => {
  const parent = linkOf(1, "eth0")
  const on = attachmentOf({ containerId: "c2" }, listOf({ type: "macvlan", master: "eth0" }))
  const attachments = [on, attachmentOf({ link: veth })]
  expect(ways([parent, bridge, veth], [], attachments).map(({ name }) => name)).toEqual(["eth0"])
  expect(ways([parent, bridge, veth]).map(({ name }) => name)).toEqual(["cni0"])
})
