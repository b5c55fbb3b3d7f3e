import { expect } from "bun:test"
import { startDnsmasq } from "../dhcp/servers.ts"
import { startDaemon } from "../dhcp/site.ts"
import {
  Attachment,
  type ContainerNamespace,
  connect,
  type Feature,
  fail,
  type HostNamespace,
  hostFor,
  linkNames,
  newest,
  pluginRow,
  pluginsAs,
  succeed,
  TemporaryDirectory,
  testWith,
} from "../lab/mod.ts"

/**
 * Tests on kernels without IPv6: with `ipv6.disable=1`, or built without IPv6. Kernels built without IPv6 also lack
 * bridge, ipvlan and VRF.
 */

const common = { cniVersion: newest, name: "lab" }
const ipam = { type: "host-local", ranges: [[{ subnet: "10.22.0.0/24" }]], routes: [{ dst: "0.0.0.0/0" }] }
/** The plugin that creates the interface for a chained plugin. Another test covers ptp itself with masquerading. */
const maker = { ...common, type: "ptp", ipam }

/** Plugins that need a link type which some kernels provide only together with IPv6. */
const linked: Record<string, Feature> = { bridge: "bridge", flannel: "bridge" }

/**
 * Further configurations of plugins, besides that of the lab's table. With "auto", ptp, firewall and portmap choose
 * iptables in user-mode Linux, which has no nf_tables, and nf_tables in QEMU.
 */
const variants: Record<string, object[]> = {
  bridge: [{ macspoofchk: true, ipMasqBackend: "iptables" }],
  sbr: [{ table: 5000 }, { gateways: ["10.22.0.1"], addSourceHints: true }],
}

for (const plugin of pluginsAs()) {
  const { needs = [], staged } = pluginRow(plugin)
  if (staged === false) continue // dhcp has its own test below
  const features: [Feature, ...Feature[]] = ["no_ipv6", ...needs, ...(linked[plugin] ? [linked[plugin]] : [])]
  testWith(features, `${plugin}: each verb does its work on a kernel without IPv6`, async () => {
    await using host = await hostFor(plugin)
    for (const keys of [{}, ...(variants[plugin] ?? [])]) await tryVerbs(host, plugin, keys)
  })
}

async function tryVerbs(host: HostNamespace, plugin: string, keys: object): Promise<void> {
  const { role, keys: keysOf } = pluginRow(plugin)
  const pod = await host.addContainer()
  const before = await traces(host, pod)
  const first = role === "chained" ? new Attachment(host, pod, maker) : undefined
  const prevResult = await first?.add()
  const inside = await describe(pod)
  const config = { ...common, type: plugin, ...keysOf({ network: "lab", port: 8080 }), prevResult, ...keys }
  const attachment = new Attachment(host, pod, config, { ifName: role === "loopback" ? "lo" : "eth0" })
  const made = await describe(pod)

  for (const verb of ["VERSION", "STATUS"] as const) await succeed(attachment.run(verb, { prevResult: undefined }))
  const result = await attachment.add()
  await succeed(attachment.check(result))
  for (const time of ["with", "without"]) await attachment.del({ prevResult: time === "with" ? result : undefined })
  if (role !== "loopback") expect(await describe(pod)).toEqual(made)
  await attachment.add()
  await succeed(attachment.run("GC", { prevResult: undefined, "cni.dev/valid-attachments": [] }))
  await attachment.del()
  if (role === "chained") expect(await describe(pod)).toEqual(inside)
  await first?.del()
  await succeed(attachment.run("DEL", {}, { netns: "" }))
  expect(await traces(host, pod)).toEqual(before)
}

/** Returns the links, addresses, routes and rules of a container. */
async function describe(pod: ContainerNamespace): Promise<string[]> {
  const shown = await pod.exec("sh", ["-c", "ip -o -4 address; ip route show table all; ip rule"])
  // The kernel adds its rule for VRFs with the first VRF of a namespace, and never removes it.
  const lines = shown.stdout.split("\n").filter((line) => !line.includes("l3mdev-table"))
  return [...(await linkNames(pod)), ...lines].sort()
}

/** Returns the objects on the host that a container still has: ends of veth pairs, and objects with its name. */
async function traces(host: HostNamespace, pod: ContainerNamespace): Promise<string[]> {
  const own = `(nft list ruleset; iptables-save) 2>&1 | grep ${pod.name}; grep -rl ${pod.name} /var/lib/cni /run/cni; ls /sys/class/net`
  const { stdout } = await host.exec("sh", ["-c", own])
  return stdout.split("\n").filter((line) => line !== "br-lab")
}

testWith(["no_ipv6", "macvlan"], "dhcp: each verb does its work on a kernel without IPv6", async () => {
  await using host = await hostFor("dhcp")
  await using directory = await TemporaryDirectory.create()
  const server = await host.addContainer("server")
  await connect({ namespace: host, link: "up0" }, { namespace: server, link: "eth0", addresses: ["10.1.2.1/24"] })
  await using _server = await startDnsmasq(server, directory.path, [
    "--dhcp-range=10.1.2.50,10.1.2.60,255.255.255.0,2m",
  ])
  await using _daemon = await startDaemon(host, ["-timeout", "1s"])
  const pod = await host.addContainer()
  const config = { ...common, type: "macvlan", master: "up0", ipam: { type: "dhcp" } }
  const attachment = new Attachment(host, pod, config)
  await succeed(attachment.run("STATUS"))
  const result = await attachment.add()
  expect(result.ips[0]?.address).toMatch(/^10\.1\.2\.(5\d|60)\/24$/)
  await succeed(attachment.check(result))
  for (const _ of ["once", "twice"]) await attachment.del()
  await succeed(attachment.run("GC", { "cni.dev/valid-attachments": [] }))
  expect(await linkNames(pod)).toEqual(["lo"])
})

testWith(
  ["no_ipv6"],
  "an address of IPv6 is refused on a kernel without it, with the reason, and nothing is left",
  async () => {
    await using host = await hostFor("ptp")
    const pod = await host.addContainer()
    const [before, inside] = [await traces(host, pod), await describe(pod)]
    const ranges = [[{ subnet: "10.22.0.0/24" }], [{ subnet: "fd00:22::/64" }]]
    const ptp = new Attachment(host, pod, { ...maker, ipam: { ...ipam, ranges } })
    expect(await fail(ptp.run("ADD"))).toMatchObject({
      msg: 'Cannot add address fd00:22::2/64 to "eth0"',
      details: expect.stringContaining("the kernel has no IPv6"),
    })
    expect(await traces(host, pod)).toEqual(before)
    expect(await describe(pod)).toEqual(inside)
  },
)
