import { expect, test } from "bun:test"
import { Attachment, addressesOf, HostNamespace, linkOf, ping, readSysctl, writeSysctl } from "../lab/mod.ts"
import { dualStack, ptpNetwork, routesOf } from "./network.ts"

async function hostAndPod() {
  const host = await HostNamespace.create()
  return { host, pod: await host.addContainer() }
}

test("ADD makes a pair of links and answers what the kernel has", async () => {
  const { host, pod } = await hostAndPod()
  await using _ = host
  const result = await new Attachment(host, pod, ptpNetwork()).add()
  const [hostEnd, container] = result.interfaces
  expect(result).toEqual({
    cniVersion: "1.1.0",
    interfaces: [
      { name: expect.stringMatching(/^veth[0-9a-f]{8}$/), mac: expect.any(String), mtu: 1500 },
      { name: "eth0", mac: expect.any(String), mtu: 1500, sandbox: pod.path },
    ],
    ips: [{ address: "10.9.0.2/24", gateway: "10.9.0.1", interface: 1 }],
  })
  const end = await linkOf(host, hostEnd?.name ?? "")
  expect({ mac: end.address, mtu: end.mtu }).toEqual({ mac: hostEnd?.mac ?? "", mtu: 1500 })
  expect(end.ifalias).toBe(`wire/${pod.name}/eth0`)
  expect(end.flags).toContain("UP")
  const eth0 = await linkOf(pod, "eth0")
  expect(eth0.address).toBe(container?.mac ?? "")
  expect(eth0.flags).toContain("UP")
})

test("addresses and routes of both sides are those of the reference plugin", async () => {
  const { host, pod } = await hostAndPod()
  await using _ = host
  const { interfaces } = await new Attachment(host, pod, ptpNetwork(dualStack)).add()
  const end = interfaces[0]?.name ?? ""

  expect((await addressesOf(pod, "eth0")).sort()).toEqual(["10.9.0.2/24", "fd00:9::2/64"])
  expect(await routesOf(pod, "eth0", "-4")).toEqual([
    "10.9.0.0/24 via 10.9.0.1 src 10.9.0.2",
    "10.9.0.1 scope link src 10.9.0.2",
    "default via 10.9.0.1",
  ])
  expect(await routesOf(pod, "eth0", "-6")).toEqual([
    "default via fd00:9::1 metric 1024 pref medium",
    "fd00:9::/64 via fd00:9::1 src fd00:9::2 metric 1024 pref medium",
    "fd00:9::1 src fd00:9::2 metric 1024 pref medium",
  ])
  expect((await addressesOf(host, end)).sort()).toEqual(["10.9.0.1/32", "fd00:9::1/128"])
  expect(await routesOf(host, end, "-4")).toEqual(["10.9.0.2 scope host"])
  expect(await routesOf(host, end, "-6")).toEqual([
    "fd00:9::1 proto kernel metric 256 pref medium",
    "fd00:9::2 metric 1024 pref medium",
  ])
})

test("both sides are the same as with the Go plugin", async () => {
  await using host = await HostNamespace.create()
  const keys = { cniVersion: "1.0.0", ...dualStack }
  const states = []
  for (const bin of [undefined, "/usr/lib/cni/ptp"]) {
    const pod = await host.addContainer()
    const config = ptpNetwork({ ...keys, name: bin ? "go" : "ours" })
    const attachment = new Attachment(host, pod, config, bin ? { bin, path: "/usr/lib/cni" } : {})
    const end = (await attachment.add()).interfaces[0]?.name ?? ""
    const sides = [
      { where: pod, link: "eth0" },
      { where: host, link: end },
    ]
    states.push(
      await Promise.all(
        sides.map(async ({ where, link }) => [
          (await addressesOf(where, link)).sort(),
          await routesOf(where, link, "-4"),
          await routesOf(where, link, "-6"),
        ]),
      ),
    )
    await attachment.del()
  }
  expect(states[0]).toEqual(states[1] ?? [])
})

test("two containers, and container and host, reach each other over both families at once", async () => {
  const { host, pod } = await hostAndPod()
  await using _ = host
  const other = await host.addContainer()
  const config = ptpNetwork(dualStack)
  await new Attachment(host, pod, config).add()
  await new Attachment(host, other, config).add()
  const pings = [
    { from: pod, to: "fd00:9::3" },
    { from: pod, to: "10.9.0.3" },
    { from: other, to: "fd00:9::2" },
    { from: pod, to: "10.9.0.1" },
    { from: pod, to: "fd00:9::1" },
    { from: host, to: "10.9.0.3" },
    { from: host, to: "fd00:9::3" },
  ]
  for (const { from, to } of pings) expect(`${to} ${await ping(from, to)}`).toBe(`${to} true`)
})

test("the host forwards the families of the addresses, and no other", async () => {
  const { host, pod } = await hostAndPod()
  await using _ = host
  await new Attachment(host, pod, ptpNetwork()).add()
  expect(await readSysctl(host, "net/ipv4/ip_forward")).toBe("1")
  expect(await readSysctl(host, "net/ipv6/conf/all/forwarding")).toBe("0")
})

test("an interface that an administrator keeps out of forwarding stays out", async () => {
  const { host, pod } = await hostAndPod()
  await using _ = host
  await writeSysctl(host, "net/ipv6/conf/all/forwarding", "1")
  await host.exec("ip", ["link", "add", "uplink", "type", "bridge"])
  await writeSysctl(host, "net/ipv6/conf/uplink/forwarding", "0")
  await new Attachment(host, pod, ptpNetwork(dualStack)).add()
  expect(await readSysctl(host, "net/ipv6/conf/uplink/forwarding")).toBe("0") // every write to "all" would change it
})

test("mtu is that of both ends", async () => {
  const { host, pod } = await hostAndPod()
  await using _ = host
  const { interfaces } = await new Attachment(host, pod, ptpNetwork({ mtu: 512 })).add()
  expect(interfaces.map(({ mtu }) => mtu)).toEqual([512, 512])
  expect((await linkOf(host, interfaces[0]?.name ?? "")).mtu).toBe(512)
  expect((await linkOf(pod, "eth0")).mtu).toBe(512)
})

test("DNS of the configuration replaces the IPAM plugin's when any member is there", async () => {
  const { host, pod } = await hostAndPod()
  await using _ = host
  const resolvConf = "/run/cni/resolv.conf"
  await host.exec("tee", [resolvConf], { input: "nameserver 192.0.2.53\nsearch example.com\n" })
  const ipam = { ...ptpNetwork().ipam, resolvConf }
  const attachment = new Attachment(host, pod, ptpNetwork({ ipam }))
  expect((await attachment.add()).dns).toEqual({ nameservers: ["192.0.2.53"], search: ["example.com"] })
  await attachment.del()
  for (const dns of [{ nameservers: ["192.0.2.1"] }, { domain: "a.example" }, { options: ["ndots:2"] }]) {
    expect((await attachment.add({ dns })).dns).toEqual(dns)
    await attachment.del()
  }
  expect((await attachment.add({ dns: { nameservers: [] } })).dns ?? {}).toEqual({})
})

test("routes of the IPAM plugin to the network and to the gateway themselves are no conflict", async () => {
  const { host, pod } = await hostAndPod()
  await using _ = host
  const routes = [{ dst: "10.9.0.0/24" }, { dst: "10.9.0.1/32", scope: 253 }, { dst: "192.0.2.0/24", gw: "10.9.0.77" }]
  const attachment = new Attachment(host, pod, ptpNetwork({ ipam: { ...ptpNetwork().ipam, routes } }))
  const result = await attachment.add()
  expect(await routesOf(pod, "eth0", "-4")).toEqual([
    "10.9.0.0/24 via 10.9.0.1",
    "10.9.0.1 scope link src 10.9.0.2",
    "192.0.2.0/24 via 10.9.0.77",
  ])
  expect(await attachment.check(result)).toMatchObject({ exitCode: 0 })
})

test("two attachments of one container to one network are two pairs, and the first keeps the default route", async () => {
  const { host, pod } = await hostAndPod()
  await using _ = host
  const config = ptpNetwork({ ...dualStack, ipMasq: true })
  const first = new Attachment(host, pod, config)
  const second = new Attachment(host, pod, config, { ifName: "eth1" })
  const one = await first.add()
  const two = await second.add()
  expect(two.ips[0]?.address).toBe("10.9.0.3/24")
  const defaults = await pod.json<{ dev: string }[]>("ip", ["-j", "route", "show", "default"])
  expect(defaults.map(({ dev }) => dev)).toEqual(["eth0", "eth1"])
  expect(await first.check(one)).toMatchObject({ exitCode: 0 })
  expect(await second.check(two)).toMatchObject({ exitCode: 0 })
  for (const address of ["10.9.0.2", "10.9.0.3", "fd00:9::2", "fd00:9::3"]) {
    expect(`${address} ${await ping(host, address)}`).toBe(`${address} true`)
  }
  await first.del()
  expect(await second.check(two)).toMatchObject({ exitCode: 0 })
  for (const address of ["10.9.0.3", "fd00:9::3"]) expect(await ping(host, address)).toBe(true)
})

test("IPv4 works where IPv6 is switched off on both sides", async () => {
  const { host, pod } = await hostAndPod()
  await using _ = host
  for (const where of [host, pod]) {
    await writeSysctl(where, "net/ipv6/conf/all/disable_ipv6", "1")
    await writeSysctl(where, "net/ipv6/conf/default/disable_ipv6", "1")
  }
  const attachment = new Attachment(host, pod, ptpNetwork({ ipMasq: true }))
  const result = await attachment.add()
  expect(await attachment.check(result)).toMatchObject({ exitCode: 0 })
  expect(await ping(pod, "10.9.0.1")).toBe(true)
  await attachment.del()
})

test("IPv6 is switched on where addresses need it, on these two links only", async () => {
  const { host, pod } = await hostAndPod()
  await using _ = host
  for (const where of [host, pod]) {
    await writeSysctl(where, "net/ipv6/conf/all/disable_ipv6", "1")
    await writeSysctl(where, "net/ipv6/conf/default/disable_ipv6", "1")
  }
  await new Attachment(host, pod, ptpNetwork(dualStack)).add()
  expect(await ping(pod, "fd00:9::1")).toBe(true)
  expect(await ping(host, "fd00:9::2")).toBe(true)
  expect(await readSysctl(host, "net/ipv6/conf/default/disable_ipv6")).toBe("1")
  expect(await readSysctl(host, "net/ipv6/conf/lo/disable_ipv6")).toBe("1")
})
