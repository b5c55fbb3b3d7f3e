import { expect, test } from "bun:test"
import {
  Attachment,
  advertised,
  advertiseRouter,
  bridgeNetwork,
  connect,
  HostNamespace,
  interfacePlugins,
  learnt,
  linkNames,
  readSysctl,
  Stage,
  testPlugins,
  testWith,
  waitFor,
  writeSysctl,
} from "../lab/mod.ts"

test("the advertisement is one that a host makes a default route and an address of, where nothing keeps it from that", async () => {
  await using host = await HostNamespace.create()
  const pod = await host.addContainer()
  await connect({ namespace: host, link: "veth0" }, { namespace: pod, link: "eth0" })
  await advertiseRouter(pod, "eth0", host)
  await waitFor(async () => (await learnt(host)).includes("default via fe80:"), "the default route")
  expect(await learnt(host)).toContain(advertised)
})

testPlugins(
  interfacePlugins(({ hasHostEnd }) => hasHostEnd),
  "%s: the host learns nothing from a router in a container [S39]",
  async (plugin) => {
    await using stage = await Stage.create(plugin)
    const { attachment, pod } = await stage.attach()
    await attachment.add()
    await advertiseRouter(pod, "eth0", stage.host)
    expect(await learnt(stage.host)).toBe("")
    for (const name of await linkNames(stage.host)) {
      if (name === "lo") continue
      expect(`${name} ${await readSysctl(stage.host, `net/ipv6/conf/${name}/accept_ra`)}`).toBe(`${name} 0`)
    }
  },
)

test("bridge: nor by a bridge that was there before, and heeded routers [S40]", async () => {
  await using host = await HostNamespace.create()
  const pod = await host.addContainer()
  await host.exec("ip", ["link", "add", "br-lab", "up", "type", "bridge"])
  await writeSysctl(host, "net/ipv6/conf/br-lab/accept_ra", "2") // also where the host forwards
  await new Attachment(host, pod, bridgeNetwork({ isGateway: true })).add()
  await advertiseRouter(pod, "eth0", host)
  expect(await learnt(host)).toBe("")
})

test("bridge: nor by the interface of an earlier plugin that joins the bridge, once it leaves it", async () => {
  await using host = await HostNamespace.create()
  const pod = await host.addContainer()
  await host.exec("ip", ["link", "add", "port0", "type", "veth", "peer", "name", "eth0", "netns", pod.name])
  await pod.exec("ip", ["link", "set", "eth0", "up"])
  const prevResult = { interfaces: [{ name: "port0" }, { name: "eth0", sandbox: pod.path }], ips: [] }
  const { ipam: _none, ...config } = bridgeNetwork({ prevResult })
  await new Attachment(host, pod, config).add()
  await host.exec("ip", ["link", "set", "port0", "nomaster"])
  await advertiseRouter(pod, "eth0", host)
  expect(await learnt(host)).toBe("")
})

test("bridge: an operator's setting is back when the first ADD on the bridge fails", async () => {
  await using host = await HostNamespace.create()
  await host.exec("ip", ["link", "add", "br-lab", "up", "type", "bridge"])
  await writeSysctl(host, "net/ipv6/conf/br-lab/accept_ra", "2")
  await host.exec("ip", ["address", "add", "10.22.9.9/24", "dev", "br-lab"]) // in the way of the gateway
  const attachment = new Attachment(host, await host.addContainer(), bridgeNetwork({ isGateway: true }))
  expect((await attachment.run("ADD")).exitCode).toBe(1)
  expect(await readSysctl(host, "net/ipv6/conf/br-lab/accept_ra")).toBe("2")
})

for (const operators of [false, true]) {
  testWith(
    ["vlan_filtering"],
    `bridge: nor by the gateway's interface of a VLAN${operators ? ", which was there before" : ""}`,
    async () => {
      await using host = await HostNamespace.create()
      const pod = await host.addContainer()
      const config = bridgeNetwork({ vlan: 100, isGateway: true })
      if (operators) {
        await new Attachment(host, await host.addContainer(), config).add()
        for (const name of await linkNames(host)) await writeSysctl(host, `net/ipv6/conf/${name}/accept_ra`, "2")
      }
      await new Attachment(host, pod, config).add()
      await advertiseRouter(pod, "eth0", host)
      expect(await learnt(host)).toBe("")
    },
  )
}
