/** Tests that `cni reconcile --containers` restores the inside of containers, and only with that flag. */
import { expect, test } from "bun:test"
import { podsNetwork } from "../cni/node-lab.ts"
import { type ContainerNamespace, testWith } from "../lab/mod.ts"
import { madeFor, type Published, ReconcileLab } from "./reconcile-lab.ts"

const [bridge = {}, portmap = {}] = podsNetwork.plugins as readonly Record<string, unknown>[]
const network = (...plugins: object[]) => ({ ...podsNetwork, plugins })
const ipam = bridge.ipam

/** Returns the addresses, routes of all tables, rules and settings of a container, as `ip` and `sysctl` print them. */
async function insideOf(pod: ContainerNamespace): Promise<unknown> {
  const [links, routes, rules] = await Promise.all([
    pod.json<{ ifname: string; addr_info: object[] }[]>("ip", ["-j", "address"]),
    pod.json<object[]>("ip", ["-j", "route", "show", "table", "all"]),
    pod.json<object[]>("ip", ["-j", "rule"]),
  ])
  const settings = await pod.exec("sysctl", ["net.ipv4.conf.eth0.rp_filter", "net.core.somaxconn"])
  const isLasting = (route: object) => !("type" in route && /local|broadcast|multicast/.test(String(route.type)))
  return {
    links: links.map((link) => ({ ...link, addr_info: link.addr_info.map((one) => JSON.stringify(one)).sort() })),
    routes: routes
      .filter(isLasting)
      .map((one) => JSON.stringify(one))
      .sort(),
    rules,
    settings: settings.stdout,
  }
}

const inContainer = 'interface "eth0" in the container'
const tuning = { type: "tuning", sysctl: { "net.core.somaxconn": "500" }, mtu: 1400, promisc: true }

/** Commands of a program in the container, and the expected output of `cni reconcile`. */
const losses: readonly { network: ReturnType<typeof network>; command: string; says: readonly [string, string][] }[] = [
  { network: network(bridge, portmap), command: "ip -4 address flush dev eth0", says: [["bridge", inContainer]] },
  { network: network(bridge, portmap), command: "ip link set eth0 down", says: [["bridge", inContainer]] },
  { network: network(bridge, portmap), command: "ip route flush dev eth0 proto boot", says: [["bridge", inContainer]] },
  {
    network: network(
      { type: "ptp", ipMasq: true, ipam: { ...(ipam as object), routes: [{ dst: "0.0.0.0/0" }] } },
      portmap,
    ),
    command: "ip -4 address flush dev eth0",
    says: [["ptp", inContainer]],
  },
  {
    network: network(bridge, portmap, tuning),
    command: "sysctl -qw net.core.somaxconn=9 && ip link set eth0 mtu 1300 promisc off",
    says: [["tuning", 'settings of "eth0" in the container']],
  },
  {
    network: network(bridge, portmap, { type: "sbr" }),
    command: "ip rule delete from 10.85.0.2 && ip route flush table 100",
    says: [
      ["bridge", inContainer],
      ["sbr", 'source routing of "eth0" in the container'],
    ],
  },
]

test.each(losses)("$command: cni reconcile --containers makes it good, and without the flag it stays", async (one) => {
  await using lab = await ReconcileLab.create(one.network)
  const [published] = (await lab.addPods(1)) as [Published]
  const { pod } = published
  const before = await insideOf(pod)
  await pod.exec("sh", ["-ec", one.command])
  const lost = await insideOf(pod)
  expect(lost).not.toEqual(before)
  const restored = one.says.map(([plugin, what]) => madeFor(published, plugin, what))
  expect(await lab.reconcile()).toMatchObject({ restored: [], failed: [] })
  expect(await lab.reconcile("--containers", "--dry-run")).toMatchObject({ restored, failed: [] })
  expect(await insideOf(pod)).toEqual(lost)
  expect(await lab.reconcile("--containers")).toMatchObject({ restored, failed: [] })
  expect(await insideOf(pod)).toEqual(before)
  // With sbr, packets without a source address have no route.
  if (!one.says.some(([plugin]) => plugin === "sbr")) await lab.expectTraffic([published])
  expect(await lab.reconcile("--containers")).toMatchObject({ restored: [], failed: [] })
  await lab.removePods([published])
})

testWith(
  ["vrf"],
  "an interface that was taken out of its VRF, and a VRF without routes, come back with the routes in its table",
  async () => {
    await using lab = await ReconcileLab.create(network(bridge, portmap, { type: "vrf", vrfname: "blue" }))
    const [published] = (await lab.addPods(1)) as [Published]
    const { pod } = published
    const before = await insideOf(pod)
    const what = 'VRF "blue" of "eth0" in the container'
    for (const [command, item] of [
      ["ip link set eth0 nomaster", madeFor(published, "vrf", what)],
      ["ip route flush vrf blue proto boot", madeFor(published, "bridge", inContainer)],
    ] as const) {
      await pod.exec("sh", ["-ec", command])
      expect((await lab.reconcile("--containers")).restored).toContainEqual(item)
      expect(await insideOf(pod)).toEqual(before)
      expect(await lab.reconcile("--containers")).toMatchObject({ restored: [], failed: [] })
    }
  },
)

test("a loopback interface that was set down is up again", async () => {
  await using lab = await ReconcileLab.create(network(bridge, portmap, { type: "loopback" }))
  const [published] = (await lab.addPods(1)) as [Published]
  await published.pod.exec("ip", ["link", "set", "lo", "down"])
  const { restored } = await lab.reconcile("--containers")
  expect(restored).toEqual([madeFor(published, "loopback", '"lo" in the container')])
  const links = await published.pod.json<{ flags: string[] }[]>("ip", ["-j", "link", "show", "lo"])
  expect(links[0]?.flags).toContain("UP")
})

test("a deleted interface is reported with the command that creates it again; others are restored", async () => {
  await using lab = await ReconcileLab.create()
  const pods = (await lab.addPods(2)) as [Published, Published]
  const [deleted, emptied] = pods
  await deleted.pod.exec("ip", ["link", "delete", "eth0"])
  await emptied.pod.exec("ip", ["address", "flush", "dev", "eth0"])
  const { stdout, stderr, exitCode } = await lab.node.cni(["reconcile", "--containers", "-o", "json"])
  expect(exitCode).toBe(1)
  expect(stderr).toContain(`"cni reattach pods/${deleted.pod.name}/eth0" creates a new one`)
  expect(JSON.parse(stdout).restored).toEqual([madeFor(emptied, "bridge", inContainer)])
  await lab.expectTraffic([emptied])
})
