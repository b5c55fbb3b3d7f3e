/**
 * How dhcp acquires a lease on a link of the kernel, judged by the server's requests, the callers' answers, and `ip`.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { statSync } from "node:fs"
import { encodeProbe } from "../../../ipam/dhcp/testing/mod.ts"
import { addressesOf, HostNamespace, linkOf, waitFor } from "../../lab/mod.ts"
import { leftOpen, openInKernel } from "../open-files.ts"
import { DhcpSite, mac } from "./dhcp-site.fixture.ts"

let host: HostNamespace
beforeAll(async () => {
  host = await HostNamespace.create("dhcp")
})
afterAll(() => host[Symbol.asyncDispose]())

const isUp = async ({ pod }: DhcpSite) => (await linkOf(pod, "eth0")).flags.includes("UP")
const result = (address: string) => ({
  interfaces: [],
  ips: [{ address, gateway: "10.1.2.1" }],
  routes: [{ dst: "0.0.0.0/0", gw: "10.1.2.1" }],
  dns: {},
})

test("a lease is on record before it is asked for, and held once the server has said so; nothing is open then", async () => {
  using site = await DhcpSite.create(host)
  const before = openInKernel(/netns/)
  const caller = site.allocate()
  const discover = site.hear("DISCOVER")
  expect([await isUp(site), site.records, site.holder.result]).toEqual([true, [], undefined])
  expect(site.holder.link.descriptors).toHaveLength(1)
  site.reply("OFFER", discover, "10.1.2.3")
  expect(site.records).toMatchObject([{ progress: "acquiring", clients: [{ phase: "requesting" }] }])
  expect(site.hasMore).toBe(true)
  expect(caller.answers).toEqual([])
  site.now += 1000
  site.reply("ACK", site.hear("REQUEST"), "10.1.2.3")
  expect(caller.answers).toEqual([result("10.1.2.3/24")])
  expect(site.holder.result).toEqual(result("10.1.2.3/24"))
  expect([leftOpen(before, /netns/), site.holder.link.descriptors]).toEqual([[], []])
  const { dev, ino } = statSync(site.pod.path)
  const [{ ifindex } = {}] = await site.pod.json<{ ifindex?: number }[]>("ip", ["-j", "link", "show", "eth0"])
  const [{ writtenAt, config, clients, ...record } = {}, ...others] = JSON.parse(JSON.stringify(site.records))
  expect(record).toEqual({
    version: 1,
    bootId: "this boot",
    clock: 1_001_000,
    containerId: "box",
    network: "net",
    ifName: "eth0",
    namespace: { path: site.pod.path, identity: `${dev >> 8}:${dev & 255}:${ino}` },
    link: { name: "eth0", index: ifindex, mac },
    progress: "held",
  })
  expect(Math.abs(Date.now() - writtenAt)).toBeLessThan(600_000)
  expect([config.daemonSocketPath, clients.length, clients[0].phase, clients[0].lease.address, others]).toEqual([
    "/run/cni/dhcp.sock",
    1,
    "bound",
    "10.1.2.3/24",
    [],
  ])
  expect(await addressesOf(site.pod, "eth0")).toEqual([]) // left to the plugin that has made the interface
  expect(site.log).toEqual([])
})

test.each([
  [{}, 1400],
  [{ useOptions: false }, 1500],
])(
  "the server's MTU is that of the interface before ADD is answered, unless options are not wanted: %j",
  async (ipam, mtu) => {
    using site = await DhcpSite.create(host)
    site.lease(ipam, { 26: "0578" })
    expect((await linkOf(site.pod, "eth0")).mtu).toBe(mtu)
  },
)

test("two callers at once are told of one lease, and a third one later of the same, for which nothing is sent", async () => {
  using site = await DhcpSite.create(host)
  const first = site.allocate()
  const second = site.allocate()
  site.reply("OFFER", site.hear("DISCOVER"), "10.1.2.3")
  site.reply("ACK", site.hear("REQUEST"), "10.1.2.3")
  const third = site.allocate()
  for (const { answers } of [first, second, third]) expect(answers).toEqual([result("10.1.2.3/24")])
  expect([site.hasMore, site.service.holders.size]).toEqual([false, 1])
})

describe("without a carrier", () => {
  test("DISCOVER is sent after five seconds all the same", async () => {
    using site = await DhcpSite.create(host, { carrier: false })
    site.allocate()
    expect([await isUp(site), site.hasMore, site.holder.link.descriptors.length]).toEqual([true, false, 1])
    expect([site.pass(), site.pass()]).toEqual([2000, 2000]) // to look after the namespace
    expect([site.records, site.holder.link.descriptors.length]).toEqual([[], 1])
    expect(site.pass()).toBe(1000)
    expect(site.holder.link.descriptors).toHaveLength(1) // the socket for answers, and no events any more
    await host.exec("ip", ["link", "set", site.link, "up"])
    const isReady = async () => (await linkOf(site.pod, "eth0")).operstate === "UP"
    await waitFor(isReady, "the kernel to notice the carrier")
    while (!site.hasMore) site.pass()
    expect([site.hear("DISCOVER").secs, site.now]).toEqual([4, 1_009_000]) // the first one was dropped
  })

  test("nothing is sent until it is there, and then at once", async () => {
    using site = await DhcpSite.create(host, { carrier: false })
    site.allocate()
    site.holder.onReadable(new Uint8Array(100)) // another event
    expect(site.holder.link.descriptors).toHaveLength(1)
    await host.exec("ip", ["link", "set", site.link, "up"])
    expect([site.hear("DISCOVER").secs, site.now]).toEqual([0, 1_000_000])
    expect(site.holder.link.descriptors).toHaveLength(1)
    expect(site.pass()).toBe(2000)
  })
})

test.each([
  ["the link", "eth7", (path: string) => [path, `error looking up "eth7" in "${path}": Link not found`]],
  ["the namespace", "eth0", () => ["/run/netns/none", expect.stringContaining("/run/netns/none")]],
])("%s that does not exist is a refusal, and leaves nothing open", async (_, ifName, expected) => {
  using site = await DhcpSite.create(host)
  const before = openInKernel()
  const [netns, message] = expected(site.pod.path)
  const refused = () => site.allocate(site.call({}, { ifName, netns }))
  expect(refused).toThrow(expect.objectContaining({ name: "Refusal", message }))
  expect([site.service.holders.size, site.records, leftOpen(before)]).toEqual([0, [], []])
})

test("an address that another machine probes for is declined; without probes the client does not listen for that", async () => {
  using site = await DhcpSite.create(host)
  const isProbe = (frame: Uint8Array) => frame[12] === 8 && frame[13] === 6
  const user = encodeProbe("0a:58:0a:01:02:77", Uint8Array.of(10, 1, 2, 3))
  const caller = site.lease({ probe: true })
  expect([caller.answers, site.holder.link.descriptors.length]).toEqual([[], 1])
  site.hearFrame(isProbe)
  site.send(user)
  expect(site.hear("DECLINE").options[50]).toBe("0a010203")
  site.service.release(site.call())
  site.allocate()
  const { xid } = site.hear("DISCOVER")
  site.send(user, site.answer("OFFER", { xid }, "10.1.2.3"))
  site.hear("REQUEST")
})
