import { expect, test } from "bun:test"
import { Attachment, addressesOf, builtPlugins, fail, HostNamespace, linkOf, ping, readSysctl } from "../lab/mod.ts"
import { ptpNetwork, routesOf, staticIpam } from "./network.ts"

/** The version of configurations with addresses from the static plugin, or else from Debian's Go plugin. */
const cniVersion = "1.0.0"
const path = `${builtPlugins}:/usr/lib/cni`

async function attached(keys: object, call: object = {}) {
  const host = await HostNamespace.create()
  const pod = await host.addContainer()
  const attachment = new Attachment(host, pod, ptpNetwork({ cniVersion, ...keys }), { path, ...call })
  const result = await attachment.add()
  return { host, pod, attachment, result, end: result.interfaces[0]?.name ?? "" }
}

async function reach(from: Parameters<typeof ping>[0], addresses: string[]): Promise<void> {
  for (const address of addresses) expect(`${address} ${await ping(from, address)}`).toBe(`${address} true`)
}

test("the MAC of the container's end can be asked for", async () => {
  const mac = "0a:00:00:00:00:07"
  for (const [keys, call] of [
    [{ runtimeConfig: { mac } }, {}],
    [{ args: { cni: { mac } } }, {}],
    [{}, { args: `IgnoreUnknown=1;MAC=${mac}` }],
  ] as const) {
    const { host, pod, result } = await attached(keys, call)
    await using _ = host
    expect(result.interfaces[1]?.mac).toBe(mac)
    expect((await linkOf(pod, "eth0")).address).toBe(mac)
  }
})

test("an address alone, /32 or /128, works, and has no network to route to", async () => {
  const ipam = staticIpam(
    { address: "10.9.0.5/32", gateway: "10.9.0.1" },
    { address: "fd00:9::5/128", gateway: "fd00:9::1" },
  )
  const { host, pod, attachment, result, end } = await attached(ipam)
  await using _ = host
  expect(await routesOf(pod, "eth0", "-4")).toEqual(["10.9.0.1 scope link src 10.9.0.5", "default via 10.9.0.1"])
  expect(await routesOf(pod, "eth0", "-6")).toEqual([
    "default via fd00:9::1 metric 1024 pref medium",
    "fd00:9::1 src fd00:9::5 metric 1024 pref medium",
  ])
  expect(await routesOf(host, end, "-4")).toEqual(["10.9.0.5 scope host"])
  await reach(pod, ["10.9.0.1", "fd00:9::1"])
  await reach(host, ["10.9.0.5", "fd00:9::5"])
  expect(await attachment.check(result)).toMatchObject({ exitCode: 0 })
})

test("a gateway outside the network works", async () => {
  const ipam = staticIpam(
    { address: "10.9.0.5/24", gateway: "192.0.2.1" },
    { address: "fd00:9::5/64", gateway: "fe80::1" },
  )
  const { host, pod, attachment, result, end } = await attached(ipam)
  await using _ = host
  expect(await routesOf(pod, "eth0", "-4")).toEqual([
    "10.9.0.0/24 via 192.0.2.1 src 10.9.0.5",
    "192.0.2.1 scope link src 10.9.0.5",
    "default via 192.0.2.1",
  ])
  expect((await addressesOf(host, end)).sort()).toEqual(["192.0.2.1/32", "fe80::1/128"])
  await reach(pod, ["192.0.2.1"])
  await reach(host, ["10.9.0.5", "fd00:9::5"])
  expect(await attachment.check(result)).toMatchObject({ exitCode: 0 })
})

test("several addresses may share a gateway, in one network and in several", async () => {
  const ipam = staticIpam(
    { address: "10.9.0.5/24", gateway: "10.9.0.1" },
    { address: "10.9.0.6/24", gateway: "10.9.0.1" },
    { address: "10.9.1.5/24", gateway: "10.9.0.1" },
    { address: "fd00:9::5/64", gateway: "fd00:9::1" },
    { address: "fd00:9::6/64", gateway: "fd00:9::1" },
  )
  const { host, pod, attachment, result, end } = await attached(ipam)
  await using _ = host
  expect(await routesOf(pod, "eth0", "-4")).toEqual([
    "10.9.0.0/24 via 10.9.0.1 src 10.9.0.5",
    "10.9.0.1 scope link src 10.9.0.5",
    "10.9.1.0/24 via 10.9.0.1 src 10.9.1.5",
    "default via 10.9.0.1",
  ])
  expect((await addressesOf(host, end)).sort()).toEqual(["10.9.0.1/32", "fd00:9::1/128"])
  await reach(host, ["10.9.0.5", "10.9.0.6", "10.9.1.5", "fd00:9::5", "fd00:9::6"])
  expect(await attachment.check(result)).toMatchObject({ exitCode: 0 })
})

test("without a gateway from the IPAM plugin it is the first address of the network", async () => {
  const ipam = staticIpam({ address: "10.9.0.5/24" }, { address: "fd00:9::5/64" })
  const { host, pod, attachment, result } = await attached(ipam)
  await using _ = host
  expect(result.ips.map(({ gateway }) => gateway)).toEqual(["10.9.0.1", "fd00:9::1"])
  await reach(pod, ["10.9.0.1", "fd00:9::1"])
  await reach(host, ["10.9.0.5", "fd00:9::5"])
  expect(await attachment.check(result)).toMatchObject({ exitCode: 0 })
})

test("without a gateway and without room for one in the network it is a link-local one, for all alike", async () => {
  const ipam = (last: number) => staticIpam({ address: `10.9.0.${last}/32` }, { address: `fd00:9::${last}/128` })
  const { host, pod, attachment, result, end } = await attached(ipam(5))
  await using _ = host
  expect(result.ips.map(({ gateway }) => gateway)).toEqual(["169.254.1.1", "fe80::1"])
  expect(await routesOf(pod, "eth0", "-4")).toEqual(["169.254.1.1 scope link src 10.9.0.5", "default via 169.254.1.1"])
  expect((await addressesOf(host, end)).sort()).toEqual(["169.254.1.1/32", "fe80::1/128"])
  const other = await host.addContainer()
  await new Attachment(host, other, ptpNetwork({ cniVersion, ...ipam(6) }), { path }).add()
  await reach(pod, ["10.9.0.6", "fd00:9::6"])
  await reach(host, ["10.9.0.5", "fd00:9::5"])
  expect(await attachment.check(result)).toMatchObject({ exitCode: 0 })
})

test("the first address of a network may be the container's own", async () => {
  const { host, result } = await attached(staticIpam({ address: "10.9.0.1/24" }))
  await using _ = host
  expect(result.ips[0]?.gateway).toBe("169.254.1.1")
  await reach(host, ["10.9.0.1"])
})

test("the IPv6 gateway is usable at once, without duplicate address detection", async () => {
  const { host, end } = await attached(staticIpam({ address: "fd00:9::5/64", gateway: "fd00:9::1" }))
  await using _ = host
  type Shown = { addr_info: { local: string; nodad?: boolean; tentative?: boolean }[] }
  const [{ addr_info } = { addr_info: [] }] = await host.json<Shown[]>("ip", ["-j", "address", "show", "dev", end])
  expect(addr_info.find(({ local }) => local === "fd00:9::1")).toMatchObject({ nodad: true })
  expect(addr_info.filter(({ tentative }) => tentative)).toEqual([])
  expect(await readSysctl(host, `net/ipv6/conf/${end}/accept_ra`)).toBe("0")
})

test("an address that the host routes to another container is refused, naming it", async () => {
  const { host, pod, end } = await attached(staticIpam({ address: "10.9.0.5/24" }))
  await using _ = host
  const other = await host.addContainer()
  const twin = new Attachment(host, other, ptpNetwork({ cniVersion, ...staticIpam({ address: "10.9.0.5/24" }) }), {
    path,
  })
  const { msg, details } = await fail(twin.run("ADD"))
  expect(msg).toContain("Cannot route 10.9.0.5")
  expect(details).toBe(`its interface is "${end}" of wire/${pod.name}/eth0`)
  expect(await other.json<object[]>("ip", ["-j", "link"])).toHaveLength(1)
})
