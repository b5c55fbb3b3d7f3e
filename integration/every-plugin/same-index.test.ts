import { expect, test } from "bun:test"
import {
  Attachment,
  bridgeNetwork,
  type ContainerNamespace,
  expectUnchanged,
  fail,
  HostNamespace,
  isAllocationTrace,
  newest,
  type PluginResult,
  takeSnapshot,
} from "../lab/mod.ts"
import { ptpNetwork } from "../ptp/network.ts"

/** A link in the output of `ip -j link show`. */
interface KernelLink {
  ifname: string
  ifindex: number
  link_index?: number
  address: string
  mtu: number
  master?: string
}

async function linksOf(where: HostNamespace | ContainerNamespace): Promise<KernelLink[]> {
  return where.json<KernelLink[]>("ip", ["-j", "link", "show"])
}

async function linkOf(where: HostNamespace | ContainerNamespace, name: string): Promise<KernelLink> {
  const link = (await linksOf(where)).find(({ ifname }) => ifname === name)
  if (!link) throw new Error(`no link ${name} in ${where.name}`)
  return link
}

/** A MAC address, and indexes for both ends of a pair that no link of the host has. */
const unused = { mac: "0a:00:00:00:00:07", index: 4002, peer: 4007 }

/**
 * Creates two veth pairs with the same indexes. The peer of the container's interface is in another namespace, and the
 * peer of the host's "chance0" is in another container. By the indexes alone, "chance0" would be the peer of the
 * container's interface.
 */
async function coincide(host: HostNamespace, pod: ContainerNamespace, { mac, index, peer }: typeof unused) {
  const elsewhere = await host.addContainer("elsewhere")
  const other = await host.addContainer("other")
  const pair = (name: string, at: number, netns: string) => ["name", name, "index", String(at), "netns", netns]
  const eth0 = pair("eth0", index, pod.name)
  await elsewhere.exec("ip", ["link", "add", "far0", "index", String(peer), "type", "veth", "peer", ...eth0])
  const theirs = pair("eth0", index, other.name)
  await host.exec("ip", ["link", "add", "chance0", "index", String(peer), "type", "veth", "peer", ...theirs])
  await pod.exec("ip", ["link", "set", "eth0", "up", "address", mac])
  await elsewhere.exec("ip", ["link", "set", "far0", "up"])
  await host.exec("ip", ["link", "set", "chance0", "up"])
  await other.exec("ip", ["link", "set", "eth0", "up"])
  for (const [where, name, [at, to]] of [
    [pod, "eth0", [index, peer]],
    [host, "chance0", [peer, index]],
  ] as const) {
    expect(await linkOf(where, name)).toMatchObject({ ifindex: at, link_index: to })
  }
}

async function hostAndPod() {
  const host = await HostNamespace.create()
  return { host, pod: await host.addContainer() }
}

const networks = [
  { plugin: "bridge", config: bridgeNetwork({ isDefaultGateway: true }) },
  { plugin: "ptp", config: ptpNetwork() },
]

test.each(networks)(
  "CHECK of $plugin says that the host's end is gone, where a stranger has its index",
  async (network) => {
    const { host, pod } = await hostAndPod()
    await using _ = host
    const attachment = new Attachment(host, pod, network.config)
    const result = await attachment.add()
    const { ifindex, link_index = 0, address } = await linkOf(pod, "eth0")
    await pod.exec("ip", ["link", "delete", "eth0"])
    await coincide(host, pod, { mac: address, index: ifindex, peer: link_index })
    if (network.plugin === "bridge") await host.exec("ip", ["link", "set", "chance0", "master", "br-lab"])
    const { msg } = await fail(attachment.check(result))
    expect(msg).toContain('interface "eth0" failed: expected a veth with its peer on the host')
  },
)

test.each(networks)("DEL and GC of $plugin leave a stranger that has the host end's index", async ({ config }) => {
  const { host, pod } = await hostAndPod()
  await using _ = host
  const attachment = new Attachment(host, pod, config)
  await attachment.add()
  await attachment.del()
  await coincide(host, pod, unused)
  const [before, inside] = [await takeSnapshot(host), await takeSnapshot(pod)]
  await attachment.del()
  expect(await attachment.run("GC", { "cni.dev/valid-attachments": [] })).toMatchObject({ exitCode: 0 })
  expectUnchanged(before, await takeSnapshot(host), isAllocationTrace)
  expectUnchanged(inside, await takeSnapshot(pod))
})

test.each(networks)(
  "DEL of $plugin removes its host's end, and leaves a container's interface of that index",
  async (network) => {
    const { host, pod } = await hostAndPod()
    await using _ = host
    const attachment = new Attachment(host, pod, network.config)
    await attachment.add()
    await pod.exec("ip", ["link", "set", "eth0", "down"])
    await pod.exec("ip", ["link", "set", "eth0", "name", "moved0"])
    await coincide(host, pod, unused)
    const end = (await linksOf(host)).find(({ ifname }) => ifname.startsWith("veth"))
    await attachment.del()
    const names = (await linksOf(host)).map(({ ifname }) => ifname)
    expect(names).toContain("chance0")
    expect(names).not.toContain(end?.ifname ?? "")
    expect((await linksOf(pod)).map(({ ifname }) => ifname)).toEqual(["lo", "eth0"])
  },
)

test("a chained bridge joins the interface that the result names, not a stranger with the peer's index", async () => {
  const { host, pod } = await hostAndPod()
  await using _ = host
  await coincide(host, pod, unused)
  await host.exec("ip", ["link", "add", "given0", "type", "veth", "peer", "name", "machine"])
  const interfaces: Partial<PluginResult["interfaces"][number]>[] = [
    { name: "given0" },
    { name: "eth0", sandbox: pod.path },
  ]
  const prevResult = { cniVersion: newest, interfaces, ips: [] }
  const { ipam: _none, ...config } = bridgeNetwork({ prevResult })
  await new Attachment(host, pod, config).add()
  expect((await linkOf(host, "given0")).master).toBe("br-lab")
  expect((await linkOf(host, "chance0")).master).toBeUndefined()
})

test("tuning sets the MTU of the container's interface, and not that of a stranger with the peer's index", async () => {
  const { host, pod } = await hostAndPod()
  await using _ = host
  await coincide(host, pod, unused)
  const prevResult = { cniVersion: newest, interfaces: [{ name: "eth0", sandbox: pod.path }], ips: [] }
  const config = { cniVersion: newest, name: "lab", type: "tuning", mtu: 1400, prevResult }
  const tuning = new Attachment(host, pod, config)
  const result = await tuning.add()
  const sizes = async () => [(await linkOf(pod, "eth0")).mtu, (await linkOf(host, "chance0")).mtu]
  expect(await sizes()).toEqual([1400, 1500])
  await host.exec("ip", ["link", "set", "chance0", "mtu", "1300"])
  expect(await tuning.check(result)).toMatchObject({ exitCode: 0, stdout: "" })
  await tuning.del()
  expect(await sizes()).toEqual([1500, 1300])
})
