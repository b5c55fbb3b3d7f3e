import { expect, test } from "bun:test"
import { type Change, connect, expectUnchanged, fail, succeed, takeSnapshot } from "../lab/mod.ts"
import { LanHost } from "./lan.ts"

type Shown = {
  ifname: string
  address: string
  mtu: number
  ifalias?: string
  flags: string[]
  link_index: number
  linkinfo: { info_data: object }
}

const isLease = ({ section }: Change) => section.startsWith("/var/lib/cni")

test("the interface is made in the container alone, with addresses, routes, MTU of the master, and its owner's alias", async () => {
  await using net = await LanHost.create()
  await net.host.exec("ip", ["link", "set", "up0", "mtu", "1400"])
  const before = await takeSnapshot(net.host)
  const { pod, attachment } = await net.attach()
  const result = await attachment.add()
  const [link] = await pod.json<Shown[]>("ip", ["-d", "-j", "link", "show", "eth0"])
  expect(link).toMatchObject({
    mtu: 1400,
    ifalias: `lan/${pod.name}/eth0`,
    flags: expect.arrayContaining(["UP", "LOWER_UP"]),
  })
  expect(result).toEqual({
    cniVersion: "1.1.0",
    interfaces: [{ name: "eth0", mac: link?.address ?? "", mtu: 1400, sandbox: pod.path }],
    ips: [
      { address: "192.0.2.100/24", gateway: "192.0.2.9", interface: 0 },
      { address: "2001:db8:2::100/64", gateway: "2001:db8:2::9", interface: 0 },
    ],
    routes: [{ dst: "0.0.0.0/0" }, { dst: "::/0" }],
  })
  for (const [family, gateway] of [
    ["-4", "192.0.2.9"],
    ["-6", "2001:db8:2::9"],
  ] as const) {
    expect(await pod.json<object[]>("ip", [family, "-j", "route", "show", "default"])).toMatchObject([
      { gateway, dev: "eth0" },
    ])
  }
  expectUnchanged(
    before,
    await takeSnapshot(net.host),
    (change) => isLease(change) || change.line === "up0 promiscuity 1" || change.line === "up0 promiscuity 0",
  )
})

test.each([
  [
    "runtimeConfig before all",
    { runtimeConfig: { mac: "0a:00:00:00:00:01" }, mac: "0a:00:00:00:00:03" },
    "IgnoreUnknown=1;MAC=0a:00:00:00:00:02",
    "0a:00:00:00:00:01",
  ],
  [
    "CNI_ARGS before the configuration",
    { mac: "0a:00:00:00:00:03" },
    "IgnoreUnknown=true;MAC=0A:00:00:00:00:02",
    "0a:00:00:00:00:02",
  ],
  ["the configuration", { mac: "0a-00-00-00-00-03" }, "", "0a:00:00:00:00:03"],
])("the MAC: %s", async (_, keys, args, mac) => {
  await using net = await LanHost.create()
  const { pod, attachment } = await net.attach(keys, { args })
  expect((await attachment.add()).interfaces[0]?.mac).toBe(mac)
  expect(await pod.json<Shown[]>("ip", ["-j", "link", "show", "eth0"])).toMatchObject([{ address: mac }])
})

test("an MTU up to the master's is taken, a larger one is refused in upstream's words", async () => {
  await using net = await LanHost.create()
  const { pod, attachment } = await net.attach({ mtu: 1300 })
  await attachment.add()
  expect(await pod.json<Shown[]>("ip", ["-j", "link", "show", "eth0"])).toMatchObject([{ mtu: 1300 }])
  expect(await fail((await net.attach({ mtu: 1501 })).attachment.run("ADD"))).toMatchObject({
    code: 7,
    msg: "invalid MTU 1501, must be [0, master MTU(1500)]",
  })
  expect(await fail((await net.attach({ mtu: -1 })).attachment.run("ADD"))).toMatchObject({ code: 7 })
})

test("the length of the broadcast queue is the kernel's unless it is given", async () => {
  await using net = await LanHost.create()
  const { pod, attachment } = await net.attach({ bcqueuelen: 5000 })
  await attachment.add()
  const { stdout } = await pod.exec("ip", ["-d", "link", "show", "eth0"])
  expect(stdout).toContain("bcqueuelen 5000")
})

test("without an IPAM plugin the interface is up and has no address", async () => {
  await using net = await LanHost.create()
  const { pod, attachment } = await net.attach({ ipam: {} })
  const result = await attachment.add()
  expect(result.ips).toBeUndefined()
  const { stdout } = await pod.exec("ip", ["-4", "address", "show", "eth0"])
  expect(stdout).toBe("")
  expect(await pod.json<Shown[]>("ip", ["-j", "link", "show", "eth0"])).toMatchObject([
    { flags: expect.arrayContaining(["UP"]) },
  ])
  expect(await attachment.check(result)).toMatchObject({ exitCode: 0 })
})

test("linkInContainer: the master is the container's, and so is the default route that finds it", async () => {
  await using net = await LanHost.create()
  const { pod, attachment } = await net.attach({ linkInContainer: true, master: undefined })
  expect((await fail(attachment.run("ADD"))).msg).toContain("there is no default route")
  await connect(
    { namespace: pod, link: "own0", addresses: ["192.0.2.50/24"] },
    { namespace: net.lan, link: "port1", addresses: [] },
  )
  await pod.exec("ip", ["route", "add", "default", "via", "192.0.2.9", "dev", "own0"])
  const result = await attachment.add()
  expect(await pod.json<Shown[]>("ip", ["-j", "link", "show", "eth0"])).toMatchObject([{ link: "own0" }])
  expect(await attachment.check(result)).toMatchObject({ exitCode: 0 })
  await attachment.del()
  expect(await pod.json<Shown[]>("ip", ["-j", "link"])).toMatchObject([{ ifname: "lo" }, { ifname: "own0" }])
  expect((await fail(attachment.run("ADD", { master: "up0" }))).msg).toBe('Cannot find the master interface "up0"')
})

/** Returns the host's interface that the plugin chooses as master if the configuration does not name one. */
async function chosenMaster(routes: readonly string[]): Promise<string | undefined> {
  await using net = await LanHost.create()
  await connect(
    { namespace: net.host, link: "up1", addresses: ["198.51.100.1/24", "2001:db8:3::1/64"] },
    { namespace: net.lan, link: "port1", addresses: ["198.51.100.9/24", "2001:db8:3::9/64"] },
  )
  for (const route of routes) await net.host.exec("ip", route.split(" "))
  const { pod, attachment } = await net.attach({ master: undefined, ipam: {} })
  await succeed(attachment.run("STATUS"))
  await attachment.add()
  const [link] = await pod.json<Shown[]>("ip", ["-j", "link", "show", "eth0"])
  const links = await net.host.json<{ ifindex: number; ifname: string }[]>("ip", ["-j", "link"])
  return links.find(({ ifindex }) => ifindex === link?.link_index)?.ifname
}

const through = (link: 0 | 1) => `route add default via ${link === 0 ? "192.0.2.9" : "198.51.100.9"}`
const through6 = (link: 0 | 1) => `-6 route add default via ${link === 0 ? "2001:db8:2::9" : "2001:db8:3::9"}`

test.each([
  ["of the default route", [through(1)], "up1"],
  ["with the lowest metric, listed last or first", [`${through(0)} metric 200`, `${through(1)} metric 100`], "up1"],
  ["with no metric before one with some", [`${through(0)} metric 1`, through(1)], "up1"],
  ["of IPv4 before IPv6, with any metric", [`${through6(0)} metric 1`, `${through(1)} metric 900`], "up1"],
  ["of IPv6, where IPv4 has none", [`${through6(0)} metric 2000`, `${through6(1)} metric 1500`], "up1"],
  [
    "that comes first of several next hops",
    ["route add default nexthop via 198.51.100.9 nexthop via 192.0.2.9"],
    "up1",
  ],
  [
    "and never that of a default route that leads nowhere",
    ["route add unreachable default metric 1", `${through(1)} metric 2`],
    "up1",
  ],
])("the master is the interface %s", async (_, routes, expected) => {
  expect(await chosenMaster(routes)).toBe(expected)
})
