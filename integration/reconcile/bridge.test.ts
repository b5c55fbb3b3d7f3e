import { expect, test } from "bun:test"
import { podsNetwork } from "../cni/node-lab.ts"
import { type ContainerNamespace, type HostNamespace, testWith } from "../lab/mod.ts"
import { madeFor, type Published, ReconcileLab } from "./reconcile-lab.ts"

test("cni reconcile restores a deleted bridge with MAC, gateway address, ports and route_localnet", async () => {
  await using lab = await ReconcileLab.create()
  const pods = await lab.addPods(3)
  const before = await linksOf(lab.host)
  await lab.host.exec("ip", ["link", "delete", "cni0"])
  await lab.expectNoTraffic(pods)
  const restored = [
    { plugin: "bridge", network: "pods", what: 'bridge "cni0"' },
    ...(await portsOf(lab.host, pods)),
    { plugin: "bridge", network: "pods", what: 'address 10.85.0.1/24 of "cni0"' },
    { plugin: "portmap", network: "pods", what: 'route_localnet of "cni0"' },
  ]
  expect((await lab.reconcile("--dry-run")).restored).toEqual(restored)
  expect((await lab.reconcile()).restored).toEqual(restored)
  await lab.expectTraffic(pods)
  expect(await linksOf(lab.host)).toEqual(before)
  await lab.expectNothingToDo()
  await lab.expectNothingLeft(pods)
})

test("cni reconcile puts back what was changed by hand: forwarding, a port, an address, a bridge that is down", async () => {
  await using lab = await ReconcileLab.create()
  const pods = await lab.addPods(2)
  const before = await linksOf(lab.host)
  const [first] = await portsOf(lab.host, pods)
  const port = /"(veth[^"]*)"/.exec(first?.what ?? "")?.[1] ?? ""
  const shared = (what: string) => ({ plugin: "bridge", network: "pods", what })
  const sabotages: [string, object][] = [
    ["sysctl -qw net.ipv4.ip_forward=0", shared("forwarding of IPv4")],
    [`ip link set ${port} nomaster`, first as object],
    [`ip link set ${port} down`, first as object],
    [`bridge link set dev ${port} hairpin off`, first as object],
    [`sysctl -qw net.ipv6.conf.${port}.accept_ra=1`, first as object],
    ["ip address delete 10.85.0.1/24 dev cni0", shared('address 10.85.0.1/24 of "cni0"')],
    ["ip link set cni0 down", shared('settings of bridge "cni0"')],
    [
      "sysctl -qw net.ipv4.conf.cni0.route_localnet=0",
      { plugin: "portmap", network: "pods", what: 'route_localnet of "cni0"' },
    ],
  ]
  for (const [command, what] of sabotages) {
    await lab.host.exec("sh", ["-ec", command])
    expect({ command, ...(await lab.reconcile("--dry-run")) }).toMatchObject({ command, restored: [what] })
    expect({ command, ...(await lab.reconcile()) }).toMatchObject({ command, restored: [what] })
    expect(await linksOf(lab.host)).toEqual(before)
    expect(await lab.reconcile()).toMatchObject({ restored: [] })
  }
  await lab.expectTraffic(pods)
  await lab.expectNothingLeft(pods)
})

const guardedNetwork = {
  ...podsNetwork,
  plugins: [{ ...podsNetwork.plugins[0], hairpinMode: false, vlan: 100, macspoofchk: true, portIsolation: true }],
}

testWith(
  ["vlan_filtering", "nf_tables", "nf_tables_bridge"],
  "cni reconcile restores VLANs, the host's interface in them, isolation and the check of MACs",
  async () => {
    await using lab = await ReconcileLab.create(guardedNetwork)
    const pods = [await lab.node.addPod("a"), await lab.node.addPod("b")]
    const vlans = async () => {
      const ports = await lab.host.json<{ ifname: string }[]>("bridge", ["-j", "vlan"])
      return ports.sort((a, b) => (a.ifname < b.ifname ? -1 : 1)) // `bridge` sorts by index, and the new bridge has another index
    }
    const [links, rules, memberships] = [await linksOf(lab.host), await lab.ruleSet(), await vlans()]
    await lab.host.exec("ip", ["link", "delete", "cni0"])
    await lab.host.exec("nft", ["flush", "ruleset"])
    const { restored } = await lab.reconcile("--dry-run")
    expect(await lab.reconcile()).toMatchObject({ restored })
    expect([await linksOf(lab.host), await lab.ruleSet(), await vlans()]).toEqual([links, rules, memberships])
    for (const pod of pods) await pod.exec("ping", ["-c", "1", "-w", "10", "10.85.0.1"])
    await lab.expectNothingToDo()
  },
)

test("cni reconcile names a container whose end on the host was deleted, and restores the others", async () => {
  await using lab = await ReconcileLab.create()
  const pods = await lab.addPods(2)
  const [port] = await portsOf(lab.host, pods.slice(0, 1))
  await lab.host.exec("ip", ["link", "delete", /"(veth[^"]*)"/.exec(port?.what ?? "")?.[1] ?? ""])
  await lab.host.exec("nft", ["flush", "ruleset"])
  const { stdout, stderr, exitCode } = await lab.node.cni(["reconcile", "-o", "json"])
  expect(exitCode).toBe(1)
  expect(stderr).toContain(`Cannot restore "pods/${pods[0]?.pod.name}/eth0": its interface was deleted`)
  expect(JSON.parse(stdout).restored).toContainEqual(madeFor(pods[1] as Published, "portmap", "published ports"))
  await lab.expectTraffic(pods.slice(1))
})

interface ShownLink {
  ifname: string
  ifalias?: string
  address: string
  master?: string
  flags: string[]
  addr_info?: { scope: string }[]
  linkinfo?: { info_slave_data?: Record<string, unknown> }
}

/** Returns the links' MAC address, master, state, port settings, and addresses except the kernel's own. */
async function linksOf(host: HostNamespace): Promise<object[]> {
  const links = await host.json<ShownLink[]>("ip", ["-d", "-j", "address"])
  return links
    .filter(({ ifname }) => !["lo", "up0"].includes(ifname))
    .map(({ ifname, ifalias, address, master, flags, addr_info, linkinfo }) => ({
      ...{ ifname, ifalias, address, master, isUp: flags.includes("UP") },
      addresses: addr_info?.filter(({ scope }) => scope === "global").map((one) => JSON.stringify(one)),
      hairpin: linkinfo?.info_slave_data?.hairpin,
      isolated: linkinfo?.info_slave_data?.isolated,
    }))
    .sort((a, b) => (a.ifname < b.ifname ? -1 : 1))
}

async function portsOf(host: HostNamespace, pods: readonly { pod: ContainerNamespace }[]): Promise<{ what: string }[]> {
  const links = await host.json<ShownLink[]>("ip", ["-j", "link"])
  return pods.map((each) => {
    const port = links.find(({ ifalias }) => ifalias?.includes(each.pod.name))?.ifname
    return madeFor(each as Published, "bridge", `port "${port}" of bridge "cni0"`) as { what: string }
  })
}
