import { expect, test } from "bun:test"
import { Attachment, bridgeNetwork, fail, HostNamespace, type Namespace, ping } from "../lab/mod.ts"

interface IpLink {
  ifname: string
  address: string
  mtu: number
  flags: string[]
  operstate: string
  master?: string
  promiscuity: number
  linkinfo?: { info_kind: string; info_slave_data?: { hairpin: boolean } }
  addr_info: { local: string; prefixlen: number; tentative?: boolean; scope: string; broadcast?: string }[]
}

async function link(where: Namespace, name: string): Promise<IpLink> {
  const [details] = await where.json<IpLink[]>("ip", ["-d", "-j", "link", "show", name])
  const [addresses] = await where.json<IpLink[]>("ip", ["-j", "addr", "show", name])
  if (!details || !addresses) throw new Error(`no link ${name}`)
  return { ...details, addr_info: addresses.addr_info }
}

function globals({ addr_info }: IpLink): string[] {
  return addr_info.filter(({ scope }) => scope === "global").map(({ local, prefixlen }) => `${local}/${prefixlen}`)
}

async function hostAndPod() {
  const host = await HostNamespace.create()
  return { host, pod: await host.addContainer() }
}

test("ADD makes the bridge, a port on it and the container's interface, and answers what the kernel has", async () => {
  const { host, pod } = await hostAndPod()
  await using _ = host
  const { interfaces, ips } = await new Attachment(host, pod, bridgeNetwork()).add()
  const [bridge, port, container] = interfaces
  expect(bridge?.name).toBe("br-lab")
  expect(port?.name).toMatch(/^veth[0-9a-f]{8}$/)
  expect(container).toMatchObject({ name: "eth0", sandbox: pod.path })
  expect(bridge).not.toHaveProperty("sandbox")
  expect(ips).toEqual([{ address: "10.22.0.2/16", gateway: "10.22.0.1", interface: 2 }])

  for (const found of [bridge, port]) {
    const kernel = await link(host, found?.name ?? "")
    expect({ address: kernel.address, mtu: kernel.mtu }).toEqual({ address: found?.mac ?? "", mtu: found?.mtu ?? 0 })
    expect(kernel.operstate).toBe("UP")
  }
  expect((await link(host, port?.name ?? "")).master).toBe("br-lab")
  const eth0 = await link(pod, "eth0")
  expect(eth0.address).toBe(container?.mac ?? "")
  expect(globals(eth0)).toEqual(["10.22.0.2/16"])
  expect(eth0.addr_info[0]?.broadcast).toBe("10.22.255.255")
  expect(globals(await link(host, "br-lab"))).toEqual([]) // no gateway was requested
})

test("two containers on one bridge reach each other and the gateway, over both families", async () => {
  const { host, pod } = await hostAndPod()
  await using _ = host
  const other = await host.addContainer()
  const ipam = { type: "host-local", ranges: [[{ subnet: "10.22.0.0/16" }], [{ subnet: "fd00:22::/64" }]] }
  const config = bridgeNetwork({ isGateway: true, ipam })
  await new Attachment(host, pod, config).add()
  await new Attachment(host, other, config).add()
  expect(globals(await link(host, "br-lab")).sort()).toEqual(["10.22.0.1/16", "fd00:22::1/64"])
  for (const address of ["10.22.0.3", "fd00:22::3", "10.22.0.1", "fd00:22::1"]) {
    expect(`${address} ${await ping(pod, address)}`).toBe(`${address} true`)
  }
})

test("a default gateway bridge gives the container a default route and lets the host forward", async () => {
  const { host, pod } = await hostAndPod()
  await using _ = host
  expect((await host.exec("sysctl", ["-n", "net.ipv4.ip_forward"])).stdout).toBe("0\n")
  const { routes } = await new Attachment(host, pod, bridgeNetwork({ isDefaultGateway: true })).add()
  expect(routes).toEqual([{ dst: "0.0.0.0/0", gw: "10.22.0.1" }])
  const [route] = await pod.json<{ gateway: string; dev: string }[]>("ip", ["-j", "route", "show", "default"])
  expect(route).toMatchObject({ gateway: "10.22.0.1", dev: "eth0" })
  expect((await host.exec("sysctl", ["-n", "net.ipv4.ip_forward"])).stdout).toBe("1\n")
  expect((await host.exec("sysctl", ["-n", "net.ipv6.conf.all.forwarding"])).stdout).toBe("0\n")
})

test("a default route of the IPAM plugin without a gateway is not a second one", async () => {
  const { host, pod } = await hostAndPod()
  await using _ = host
  const ipam = { type: "host-local", ranges: [[{ subnet: "10.22.0.0/16" }]], routes: [{ dst: "0.0.0.0/0" }] }
  await new Attachment(host, pod, bridgeNetwork({ isDefaultGateway: true, ipam })).add()
  expect(await pod.json<object[]>("ip", ["-j", "route", "show", "default"])).toHaveLength(1)
})

test("both ends have one queue in each direction, and no room for more", async () => {
  const { host, pod } = await hostAndPod()
  await using _ = host
  const { interfaces } = await new Attachment(host, pod, bridgeNetwork()).add()
  for (const end of [await link(host, interfaces[1]?.name ?? ""), await link(pod, "eth0")]) {
    expect(end).toMatchObject({ num_tx_queues: 1, num_rx_queues: 1 })
  }
})

test("mtu, mac, hairpin and promiscuous mode are in the kernel", async () => {
  const { host, pod } = await hostAndPod()
  await using _ = host
  const other = await host.addContainer()
  const runtimeConfig = { mac: "0a:00:00:00:00:07" }
  const { interfaces } = await new Attachment(
    host,
    pod,
    bridgeNetwork({ mtu: 1400, hairpinMode: true, runtimeConfig }),
  ).add()
  const port = await link(host, interfaces[1]?.name ?? "")
  expect([port.mtu, (await link(host, "br-lab")).mtu, (await link(pod, "eth0")).mtu]).toEqual([1400, 1400, 1400])
  expect(port.linkinfo?.info_slave_data?.hairpin).toBe(true)
  expect((await link(pod, "eth0")).address).toBe("0a:00:00:00:00:07")
  expect((await link(host, "br-lab")).promiscuity).toBe(0)

  const second = await new Attachment(host, other, bridgeNetwork({ promiscMode: true })).add()
  expect((await link(host, second.interfaces[1]?.name ?? "")).linkinfo?.info_slave_data?.hairpin).toBe(false)
  expect((await link(host, "br-lab")).promiscuity).toBe(1)
})

test("the bridge keeps its MAC when ports come and go", async () => {
  const { host, pod } = await hostAndPod()
  await using _ = host
  const attachment = new Attachment(host, pod, bridgeNetwork())
  const { interfaces } = await attachment.add()
  await attachment.del()
  expect((await link(host, "br-lab")).address).toBe(interfaces[0]?.mac ?? "")
})

test("an existing bridge is used as it is, with any MTU and MAC", async () => {
  const { host, pod } = await hostAndPod()
  await using _ = host
  await host.exec("ip", ["link", "add", "br-lab", "mtu", "1300", "type", "bridge"])
  const { interfaces } = await new Attachment(host, pod, bridgeNetwork()).add()
  const found = await link(host, "br-lab")
  expect(found.flags).toContain("UP")
  expect(interfaces[0]).toMatchObject({ name: "br-lab", mac: found.address })
})

test("without an IPAM plugin the container gets an interface that is up, and no address", async () => {
  const { host, pod } = await hostAndPod()
  await using _ = host
  const { ipam: _none, ...config } = bridgeNetwork()
  const result = await new Attachment(host, pod, config).add()
  expect(result.interfaces).toHaveLength(3)
  expect(result).not.toHaveProperty("ips")
  const eth0 = await link(pod, "eth0")
  expect(eth0.flags).toContain("UP")
  expect(globals(eth0)).toEqual([])
})

test("with enabledad an address that a neighbor has is refused, and everything taken back", async () => {
  const { host, pod } = await hostAndPod()
  await using _ = host
  const other = await host.addContainer()
  const ipam = (dataDir: string) => ({ type: "host-local", ranges: [[{ subnet: "fd00:22::/64" }]], dataDir })
  await new Attachment(host, pod, bridgeNetwork({ ipam: ipam("/run/cni/a") })).add()
  const clash = new Attachment(host, other, bridgeNetwork({ ipam: ipam("/run/cni/b"), enabledad: true }))
  const error = await fail(clash.run("ADD"))
  expect(error.msg).toContain("fd00:22::2")
  expect(await other.json<{ ifname: string }[]>("ip", ["-j", "link"])).toMatchObject([{ ifname: "lo" }])
})

test("a gateway address that overlaps another one of the bridge is refused, and with forceAddress replaces it", async () => {
  const { host, pod } = await hostAndPod()
  await using _ = host
  await host.exec("ip", ["link", "add", "br-lab", "type", "bridge"])
  await host.exec("ip", ["addr", "add", "10.0.0.1/8", "dev", "br-lab"])
  const attachment = new Attachment(host, pod, bridgeNetwork({ isGateway: true }))
  const error = await fail(attachment.run("ADD"))
  expect(error.msg).toBe('"br-lab" already has an IP address different from 10.22.0.1/16')
  expect(error.details).toContain("10.0.0.1/8")
  await attachment.add({ forceAddress: true })
  expect(globals(await link(host, "br-lab"))).toEqual(["10.22.0.1/16"])
})

test("several networks of one family may have their gateways on one bridge", async () => {
  const { host, pod } = await hostAndPod()
  await using _ = host
  const ipam = { type: "host-local", ranges: [[{ subnet: "10.22.0.0/16" }], [{ subnet: "10.23.0.0/16" }]] }
  await new Attachment(host, pod, bridgeNetwork({ isGateway: true, ipam })).add()
  expect(globals(await link(host, "br-lab"))).toEqual(["10.22.0.1/16", "10.23.0.1/16"])
})

test("a gateway in fe80::/64 is not in the way of the kernel's own address there", async () => {
  const { host, pod } = await hostAndPod()
  await using _ = host
  await host.exec("ip", ["link", "add", "br-lab", "up", "type", "bridge"])
  const ipam = { type: "host-local", ranges: [[{ subnet: "fe80::/64", gateway: "fe80::1" }]] }
  await new Attachment(host, pod, bridgeNetwork({ isGateway: true, ipam })).add()
  const { addr_info } = await link(host, "br-lab")
  expect(addr_info.map(({ local }) => local)).toContain("fe80::1")
  expect(await ping(pod, "fe80::1%eth0")).toBe(true)
})

test("an interface has the kernel's transmit queue on both ends", async () => {
  const { host, pod } = await hostAndPod()
  await using _ = host
  const { interfaces } = await new Attachment(host, pod, bridgeNetwork()).add()
  for (const [where, name] of [
    [host, interfaces[1]?.name ?? ""],
    [pod, "eth0"],
  ] as const) {
    expect(await where.json<object[]>("ip", ["-j", "link", "show", name])).toMatchObject([{ txqlen: 1000 }])
  }
})

test("the routes of the result are in the kernel with all that they say", async () => {
  const { host, pod } = await hostAndPod()
  await using _ = host
  const routes = [
    { dst: "192.0.2.0/24", mtu: 1300, advmss: 1260, priority: 7 },
    { dst: "198.51.100.0/24", gw: "10.22.0.9", table: 5000 },
    { dst: "203.0.113.0/24", scope: 253 },
  ]
  const ipam = { type: "host-local", ranges: [[{ subnet: "10.22.0.0/16" }]], routes }
  const attachment = new Attachment(host, pod, bridgeNetwork({ isGateway: true, ipam }))
  const result = await attachment.add()
  const found = async (...args: string[]) => (await pod.exec("ip", ["route", "show", ...args])).stdout.trim()
  expect(await found("192.0.2.0/24")).toBe("192.0.2.0/24 via 10.22.0.1 dev eth0 metric 7 mtu 1300 advmss 1260")
  expect(await found("table", "5000")).toBe("198.51.100.0/24 via 10.22.0.9 dev eth0")
  expect(await found("203.0.113.0/24")).toBe("203.0.113.0/24 dev eth0 scope link")
  expect(await attachment.check(result)).toMatchObject({ exitCode: 0 })
})

test("ipMasq alone does not let the host forward: that is for who is the gateway to ask for", async () => {
  const { host, pod } = await hostAndPod()
  await using _ = host
  await new Attachment(host, pod, bridgeNetwork({ ipMasq: true })).add()
  expect((await host.exec("sysctl", ["-n", "net.ipv4.ip_forward"])).stdout).toBe("0\n")
})

test("#45 eight first ADDs at once on a bridge that does not exist all succeed", async () => {
  await using host = await HostNamespace.create()
  const pods = await Promise.all(Array.from({ length: 8 }, () => host.addContainer()))
  const config = bridgeNetwork({ isDefaultGateway: true, ipMasq: true })
  const results = await Promise.all(pods.map((pod) => new Attachment(host, pod, config).add()))
  expect(new Set(results.map(({ ips }) => ips[0]?.address)).size).toBe(8)
  const ports = await host.json<{ master: string }[]>("ip", ["-j", "link", "show", "master", "br-lab"])
  expect(ports).toHaveLength(8)
})
