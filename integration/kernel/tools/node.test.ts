/** Tests how `cni` reads a node, in this process, whose thread enters the host's namespace. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { mkdir, writeFile } from "node:fs/promises"
import { Netns } from "../../../pkg/netns/mod.ts"
import { type Node, type NodeLink, readNode } from "../../../tools/node/mod.ts"
import { type ContainerNamespace, HostNamespace, TemporaryDirectory } from "../../lab/mod.ts"

let host: HostNamespace
let pod: ContainerNamespace
let scratch: TemporaryDirectory
let node: Node

beforeAll(async () => {
  host = await HostNamespace.create()
  pod = await host.addContainer()
  scratch = await TemporaryDirectory.create()
  const other = await host.addContainer("other")
  const lines = [
    "link add br0 type bridge",
    "link set br0 mtu 1400 address 02:00:00:00:00:01 addrgenmode none",
    "address add 10.85.0.1/24 dev br0",
    "address add fd00::1/64 dev br0 nodad",
    `link add veth1 type veth peer name eth0 netns ${pod.name}`,
    "link set veth1 address 02:00:00:00:00:02 master br0 alias pods/c1/eth0 addrgenmode none",
    "link add out0 index 77 type veth peer name out1",
    "link set out0 up addrgenmode none",
    "link set out1 up addrgenmode none",
    "address add 192.0.2.2/24 dev out0",
    "route add default via 192.0.2.1 metric 5",
    "route add 203.0.113.0/24 dev out0",
    "route add unreachable 198.51.100.0/24",
    "route add 10.9.0.0/16 dev out0 table 77",
    `link add name alone type veth peer name inside netns ${other.name}`,
  ]
  await host.exec("ip", ["-batch", "-"], { input: `${lines.join("\n")}\n` })
  await pod.exec("ip", ["link", "set", "eth0", "up"])
  await host.exec("nft", ["-f", "-"], {
    input: `table ip cni_masquerade {
  set containers {
    type ipv4_addr
    elements = { 10.85.0.2 comment "pods/c1/eth0 /run/netns/x", 10.85.0.9 comment "nobody" }
  }
  chain c {
    ip saddr 10.85.0.2 accept comment "pods/c1/eth0"
  }
}
table ip other {
  chain c {
    accept comment "pods/c1/eth0"
  }
}
`,
  })
  const upstream = ["-m", "comment", "--comment", 'name: "pods" id: "c3"']
  await host.exec("iptables", ["-t", "nat", "-N", "CNI-0123"])
  await host.exec("iptables", ["-t", "nat", "-A", "POSTROUTING", "-s", "10.85.0.3", ...upstream, "-j", "CNI-0123"])
  await host.exec("iptables", ["-t", "nat", "-A", "CNI-0123", ...upstream, "-j", "MASQUERADE"])
  await host.exec("iptables", ["-t", "nat", "-A", "POSTROUTING", "-m", "comment", "--comment", "mine", "-j", "ACCEPT"])
  const networks = {
    "10-pods.conflist": {
      cniVersion: "1.1.0",
      name: "pods",
      plugins: [
        {
          type: "bridge",
          ipam: { type: "host-local", dataDir: scratch.join("own"), ranges: [[{ subnet: "10.85.0.0/29" }]] },
        },
        { type: "bridge", ipam: { type: "static" } },
      ],
    },
    "20-bad.conflist": {
      cniVersion: "1.1.0",
      name: "bad",
      plugins: [{ type: "bridge", ipam: { type: "host-local", subnet: "x" } }],
    },
  }
  await mkdir(scratch.join("net.d"))
  for (const [name, network] of Object.entries(networks))
    await writeFile(scratch.join(`net.d/${name}`), JSON.stringify(network))
  await writeFile(scratch.join("net.d/00-broken.conf"), "{")
  for (const directory of ["own/pods", "data/zoo", "data/lan"])
    await mkdir(scratch.join(directory), { recursive: true })
  for (const file of ["own/pods/10.85.0.2", "own/pods/10.85.0.3", "data/lan/10.1.0.1", "data/lan/lock"])
    await writeFile(scratch.join(file), "c1\r\neth0")
  using namespace = Netns.open(host.path)
  node = namespace.run(() => readNode(placesIn(scratch.path)))
})
afterAll(async () => {
  await host[Symbol.asyncDispose]()
  await scratch[Symbol.asyncDispose]()
})
const placesIn = (directory: string) => ({
  confDir: `${directory}/net.d`,
  binDirs: [],
  cacheDir: `${directory}/cache`,
  dataDir: `${directory}/data`,
})

const none = { packets: 0n, bytes: 0n, dropped: 0n }
const quiet = { received: none, sent: none }
const linkOf = (name: string): NodeLink | undefined => node.links.find((link) => link.name === name)

test("links have what tells to which others they belong", () => {
  expect(node.links.map(({ name }) => name)).toEqual(["lo", "br0", "veth1", "out1", "alone", "out0"])
  expect(linkOf("br0")).toEqual({
    index: 2,
    name: "br0",
    kind: "bridge",
    mac: "02:00:00:00:00:01",
    mtu: 1400,
    isUp: false,
    state: "down",
    qdisc: "noop",
    addresses: ["10.85.0.1/24", "fd00::1/64"],
    counters: quiet,
  })
  expect(linkOf("veth1")).toEqual({
    port: {
      isHairpin: false,
      isIsolated: false,
      state: 0,
      settings: {
        learning: true,
        flood: true,
        bcast_flood: true,
        mcast_flood: true,
        locked: false,
      },
    },
    index: 3,
    name: "veth1",
    kind: "veth",
    mac: "02:00:00:00:00:02",
    mtu: 1500,
    isUp: false,
    state: "down",
    qdisc: "noop",
    alias: "pods/c1/eth0",
    master: 2,
    peer: 2,
    peerNsid: 0,
    addresses: [],
    counters: quiet,
  })
  expect(linkOf("out0")).toMatchObject({ index: 77, isUp: true, state: "up", peer: 4, addresses: ["192.0.2.2/24"] })
  expect(linkOf("out0")).not.toHaveProperty("peerNsid")
  expect(linkOf("lo")).toMatchObject({ kind: "", addresses: ["127.0.0.1/8", "::1/128"], state: "unknown" })
})

test("packets are counted by way, as ip(8) has them", async () => {
  await host.exec("ip", [
    "neighbour",
    "add",
    "192.0.2.77",
    "lladdr",
    "02:00:00:00:00:77",
    "dev",
    "out0",
    "nud",
    "permanent",
  ])
  await host.tryExec("ping", ["-c", "3", "-i", "0.01", "-W", "0.1", "192.0.2.77"])
  type Stats = Record<"packets" | "bytes" | "dropped", number>
  const links = await host.json<{ ifname: string; stats64: { rx: Stats; tx: Stats } }[]>("ip", ["-j", "-s", "link"])
  const read = again().links
  const of = ({ packets, bytes, dropped }: Stats) => [packets, bytes, dropped].map(BigInt)
  for (const { ifname, stats64 } of links) {
    const { received, sent } = read.find(({ name }) => name === ifname)?.counters ?? expect.unreachable()
    expect([received.packets, received.bytes, received.dropped]).toEqual(of(stats64.rx))
    expect([sent.packets, sent.bytes, sent.dropped]).toEqual(of(stats64.tx))
  }
  expect(read.find(({ name }) => name === "out0")?.counters?.sent).toEqual({ packets: 3n, bytes: 294n, dropped: 0n })
})

test("routes are those of the main table, with what they lead to", () => {
  expect(node.routes).toStrictEqual([
    { dst: "0.0.0.0/0", gateway: "192.0.2.1", dev: "out0", metric: 5, protocol: 3 },
    { dst: "192.0.2.0/24", dev: "out0", protocol: 2 },
    { dst: "198.51.100.0/24", isClosed: true, protocol: 3 },
    { dst: "203.0.113.0/24", dev: "out0", protocol: 3 },
  ])
})

test("rules with owners are those of plugins' own tables and chains", () => {
  const upstream = { backend: "iptables", owner: 'name: "pods" id: "c3"' }
  expect(node.rules).toEqual({
    owned: [
      { place: "ip cni_masquerade c", backend: "nftables", owner: "pods/c1/eth0" },
      { place: "ip cni_masquerade containers", backend: "nftables", owner: "pods/c1/eth0" },
      { place: "ip nat POSTROUTING", ...upstream } as never,
      { place: "ip nat CNI-0123", ...upstream } as never,
    ],
    ports: [],
  })
})

test("networks are in the order in which runtimes look for them; what is wrong with a file is told", () => {
  const found = node.networks.map(({ file, network, error, pools }) => [
    file,
    network?.name,
    error,
    pools.map(({ directory }) => directory),
  ])
  const inDirectory = (name: string) => scratch.join(`net.d/${name}`)
  expect(found).toEqual([
    [inDirectory("10-pods.conflist"), "pods", undefined, [scratch.join("own/pods")]],
    [
      inDirectory("20-bad.conflist"),
      "bad",
      'invalid range set 0: subnet "x" is not an address with a prefix length, like "10.1.0.0/24"',
      [],
    ],
    [
      inDirectory("00-broken.conf"),
      undefined,
      '00-broken.conf: Cannot decode the plugin configuration: line 1, column 2: expected a key in double quotes or "}", found the end of the text',
      [],
    ],
  ])
})

test("stores are those that networks name, and those of networks that are configured nowhere, by name", () => {
  const found = node.stores.map(({ network, directory, leases, rangeSets }) => ({
    network,
    directory,
    leases: leases.map(({ address }) => address).sort(),
    rangeSets: rangeSets.map(({ ranges, used, reclaimable, total }) => [ranges, used, reclaimable, total]),
  }))
  expect(found).toEqual([
    { network: "lan", directory: scratch.join("data/lan"), leases: ["10.1.0.1"], rangeSets: [] },
    {
      network: "pods",
      directory: scratch.join("own/pods"),
      leases: ["10.85.0.2", "10.85.0.3"],
      rangeSets: [["10.85.0.1-10.85.0.6", 2, 0, 5n]],
    },
  ])
})

function again(places: Partial<ReturnType<typeof placesIn>> = {}): Node {
  using namespace = Netns.open(host.path)
  return namespace.run(() => readNode({ ...placesIn(scratch.path), ...places }))
}

test("a part that cannot be read is told with its reason, and the others are there", async () => {
  expect(node.unread).toEqual([])
  expect(Math.abs(node.readMs - Date.now())).toBeLessThan(600_000)
  const { unread, networks, links } = again({ confDir: "/proc/version", cacheDir: "/proc/version" })
  expect(networks).toEqual([])
  expect(links).toHaveLength(node.links.length)
  expect(unread.map(({ what }) => what)).toEqual(["networks", "cache"])
  expect(unread[0]?.reason).toContain("/proc/version")
})
