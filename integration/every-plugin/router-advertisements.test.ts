import { expect, test } from "bun:test"
import {
  Attachment,
  advertised,
  advertiseRouter,
  bridgeNetwork,
  type ContainerNamespace,
  connect,
  HostNamespace,
  interfacePlugin,
  interfacePlugins,
  learnt,
  linkNames,
  linkOf,
  type Namespace,
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
  await writeSysctl(host, "net/ipv6/conf/br-lab/accept_ra", "2") // 2: also if the host forwards
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

testPlugins(
  interfacePlugins(({ masquerades }) => masquerades),
  "%s: the host keeps the default route that a router on its uplink has advertised, and heeds later advertisements [S170]",
  async (plugin) => {
    await using host = await HostNamespace.create()
    const router = await host.addContainer()
    await connect({ namespace: host, link: "uplink" }, { namespace: router, link: "lan" })
    const isDefault = async () => (await learnt(host)).includes("default via fe80:")
    await advertiseRouter(router, "lan", host)
    await waitFor(isDefault, "the default route")
    const { network, dualStack } = interfacePlugin(plugin)
    await new Attachment(host, await host.addContainer(), network(dualStack)).add()
    expect(await readSysctl(host, "net/ipv6/conf/all/forwarding")).toBe("1")
    expect(await learnt(host)).toContain("default via fe80:")
    await host.exec("ip", ["-6", "route", "delete", "default", "proto", "ra"])
    await advertiseRouter(router, "lan", host)
    await waitFor(isDefault, "the default route of a later advertisement")
  },
)

for (const accepted of ["0", "2"]) {
  test(`an uplink's accept_ra of ${accepted} is left as it is when the host begins to forward`, async () => {
    await using host = await HostNamespace.create()
    const router = await host.addContainer()
    await connect({ namespace: host, link: "uplink" }, { namespace: router, link: "lan" })
    await writeSysctl(host, "net/ipv6/conf/uplink/accept_ra", accepted)
    await host.exec("ip", ["-6", "route", "add", "default", "via", "fe80::1", "dev", "uplink", "proto", "ra"])
    const { network, dualStack } = interfacePlugin("bridge")
    await new Attachment(host, await host.addContainer(), network(dualStack)).add()
    expect(await readSysctl(host, "net/ipv6/conf/uplink/accept_ra")).toBe(accepted)
  })
}

test("an uplink without routes by advertisements keeps its accept_ra", async () => {
  await using host = await HostNamespace.create()
  await connect({ namespace: host, link: "uplink" }, { namespace: await host.addContainer(), link: "lan" })
  const { network, dualStack } = interfacePlugin("bridge")
  await new Attachment(host, await host.addContainer(), network(dualStack)).add()
  expect(await readSysctl(host, "net/ipv6/conf/uplink/accept_ra")).toBe("1")
})

/**
 * Sends a router advertisement to a container. First waits until the container's kernel has noticed the carrier,
 * because the kernel drops earlier packets.
 */
async function advertiseTo(pod: ContainerNamespace, from: Namespace, link: string): Promise<void> {
  await waitFor(async () => (await linkOf(pod, "eth0")).operstate === "UP", "the container's interface to be up")
  await advertiseRouter(from, link, pod)
}

for (const [when, keys] of [
  ["whose router is the host", { isGateway: true }],
  ["whose router is the host, by default", { isDefaultGateway: true }],
  ["with IPv6 addresses of IPAM", interfacePlugin("bridge").dualStack],
] as const) {
  for (const acceptRa of [undefined, true]) {
    const does = acceptRa ? "learns from a neighbour's advertisements with acceptRa" : "learns nothing from a neighbour"
    test(`bridge: a container ${when} ${does} [S172]`, async () => {
      await using host = await HostNamespace.create()
      const [neighbour, pod] = [await host.addContainer(), await host.addContainer()]
      const config = bridgeNetwork(acceptRa === undefined ? keys : { ...keys, acceptRa })
      await new Attachment(host, neighbour, config).add()
      await new Attachment(host, pod, config).add()
      await advertiseTo(pod, neighbour, "eth0")
      if (acceptRa) await waitFor(async () => (await learnt(pod)).includes("default via fe80:"), "the default route")
      else expect(await learnt(pod)).toBe("")
    })
  }
}

test("ptp: nor does one that is connected to the host alone, from the host [S173]", async () => {
  await using host = await HostNamespace.create()
  const pod = await host.addContainer()
  const { interfaces } = await new Attachment(host, pod, interfacePlugin("ptp").network()).add()
  await advertiseTo(pod, host, interfaces[0]?.name ?? "")
  expect(await learnt(pod)).toBe("")
})

test("bridge: a container of a segment with a router of its own configures itself, as the kernel does", async () => {
  await using host = await HostNamespace.create()
  const [router, pod] = [await host.addContainer(), await host.addContainer()]
  await new Attachment(host, router, bridgeNetwork()).add()
  await new Attachment(host, pod, bridgeNetwork()).add()
  await advertiseTo(pod, router, "eth0")
  await waitFor(async () => (await learnt(pod)).includes("default via fe80:"), "the default route")
})
