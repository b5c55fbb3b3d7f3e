import { expect, test } from "bun:test"
import {
  Attachment,
  bridgeNetwork,
  type ContainerNamespace,
  capture,
  fail,
  HostNamespace,
  linkOf,
  type PluginResult,
  readSysctl,
  succeed,
  waitFor,
} from "../lab/mod.ts"

const { ipam: _none, ...bare } = bridgeNetwork()

/** Bridges of different origin. A port has a low MAC address, which the bridge adopts unless its own is fixed. */
const origins: [string, object, (host: HostNamespace, neighbour: ContainerNamespace) => Promise<unknown>][] = [
  [
    "that an operator has made",
    {},
    async (host, neighbour) => {
      await host.exec("ip", ["link", "add", "br-lab", "up", "type", "bridge"])
      const port = ["link", "add", "port0", "address", "02:00:00:00:00:01", "master", "br-lab", "up"]
      await host.exec("ip", [...port, "type", "veth", "peer", "name", "eth9", "netns", neighbour.name])
    },
  ],
  [
    "that the other suite has made without a gateway",
    {},
    async (host, neighbour) => {
      const config = { ...bare, cniVersion: "1.0.0" }
      const other = new Attachment(host, neighbour, config, { bin: "/usr/lib/cni/bridge", ifName: "eth9" })
      const { json } = await succeed(other.run("ADD"))
      const port = (json as PluginResult).interfaces[1]?.name ?? ""
      await host.exec("ip", ["link", "set", port, "address", "02:00:00:00:00:01"])
    },
  ],
  ["that this plugin makes", {}, async () => {}],
  [
    "that this plugin makes for an interface that is down",
    { ...bare, disableContainerInterface: true },
    async () => {},
  ],
]

test.each(origins)(
  "a bridge %s keeps its address when ports come and go, those of both suites",
  async (_, keys, make) => {
    await using host = await HostNamespace.create()
    const [neighbour, pod, third] = [await host.addContainer(), await host.addContainer(), await host.addContainer()]
    await make(host, neighbour)
    const config = Object.keys(keys).length > 0 ? keys : bridgeNetwork({ isGateway: true })
    const attachment = new Attachment(host, pod, config as typeof bare)
    const { interfaces } = await attachment.add()
    const mac = interfaces[0]?.mac ?? ""
    const now = async () => (await linkOf(host, "br-lab")).address
    expect(await now()).toBe(mac)
    await neighbour.tryExec("ip", ["link", "del", "eth9"]) // delete the port with the lowest address
    expect(await now()).toBe(mac)
    const go = new Attachment(host, third, { ...bare, cniVersion: "1.0.0" }, { bin: "/usr/lib/cni/bridge" })
    const { json } = await succeed(go.run("ADD"))
    const port = (json as PluginResult).interfaces[1]?.name ?? ""
    await host.exec("ip", ["link", "set", port, "address", "02:00:00:00:00:02"])
    expect(await now()).toBe(mac)
    await attachment.del()
    await succeed(go.run("DEL"))
    expect(await now()).toBe(mac)
  },
)

test("an ADD on a bridge whose address is fixed leaves the host's neighbours on it alone", async () => {
  await using host = await HostNamespace.create()
  await new Attachment(host, await host.addContainer(), bridgeNetwork({ isGateway: true })).add()
  await host.exec("ip", ["neighbour", "add", "10.22.7.7", "lladdr", "02:00:00:00:00:77", "dev", "br-lab"])
  await new Attachment(host, await host.addContainer(), bridgeNetwork({ isGateway: true })).add()
  expect((await host.exec("ip", ["neighbour", "show", "10.22.7.7"])).stdout).toContain("02:00:00:00:00:77")
})

test("a bridge made for an interface that is down has its link-local address, as one with carrier has", async () => {
  await using host = await HostNamespace.create()
  const attachment = new Attachment(host, await host.addContainer(), { ...bare, disableContainerInterface: true })
  await attachment.add()
  expect((await linkOf(host, "br-lab")).operstate).toBe("DOWN")
  // The kernel removes "tentative" with a delay.
  const hasAddress = async () => {
    const { stdout } = await host.exec("ip", ["-6", "address", "show", "dev", "br-lab", "scope", "link"])
    return /inet6 fe80::\S+\/64 scope link $/m.test(stdout)
  }
  await waitFor(hasAddress, "the bridge to have its link-local address")
})

test("an interface without addresses has the kernel's settings: whether duplicates are looked for is for others to say", async () => {
  await using host = await HostNamespace.create()
  const [pod, other] = [await host.addContainer(), await host.addContainer()]
  await pod.exec("ip", ["link", "add", "new", "type", "bridge"])
  await new Attachment(host, pod, bare).add()
  for (const setting of [
    "net/ipv6/conf/LINK/accept_dad",
    "net/ipv6/conf/LINK/enhanced_dad",
    "net/ipv4/conf/LINK/arp_notify",
  ]) {
    const [ours, kernels] = ["eth0", "new"].map((link) => readSysctl(pod, setting.replace("LINK", link)))
    expect(`${setting} ${await ours}`).toBe(`${setting} ${await kernels}`)
  }
  await new Attachment(host, other, bridgeNetwork()).add()
  expect(await readSysctl(other, "net/ipv6/conf/eth0/accept_dad")).toBe("0")
})

test("promiscMode is set and checked also while a packet capture has the bridge promiscuous", async () => {
  await using host = await HostNamespace.create()
  await host.exec("ip", ["link", "add", "br-lab", "up", "type", "bridge"])
  const attachment = new Attachment(host, await host.addContainer(), bridgeNetwork({ promiscMode: true }))
  const flags = async () => (await linkOf(host, "br-lab")).flags
  const capturing = await capture(host, "br-lab")
  const result = await attachment.add()
  await capturing[Symbol.asyncDispose]()
  expect(await flags()).toContain("PROMISC")
  expect(await attachment.check(result)).toMatchObject({ exitCode: 0 })

  await host.exec("ip", ["link", "set", "br-lab", "promisc", "off"])
  await using _again = await capture(host, "br-lab")
  expect((await fail(attachment.check(result))).msg).toContain('bridge "br-lab" failed: expected promiscuous')
})
