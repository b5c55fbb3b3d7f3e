/** How dhcp comes to a lease on a kernel's link, and how it gives up: by what the server hears, the callers are told, and `ip` shows. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { readdirSync, readlinkSync, statSync } from "node:fs"
import { encodeProbe } from "../../ipam/dhcp/protocol/arp.ts"
import { addressesOf, HostNamespace, linkOf, waitFor } from "../lab/mod.ts"
import { DhcpSite, mac } from "./dhcp-site.fixture.ts"

let host: HostNamespace
beforeAll(async () => {
  host = await HostNamespace.create("dhcp")
})
afterAll(() => host[Symbol.asyncDispose]())

/** The sockets and namespaces that this process has open; programs that it has run may have left some of the sockets. */
const open = (kind = /socket:|\/netns\//) =>
  readdirSync("/proc/self/fd").flatMap((fd) => {
    try {
      return [readlinkSync(`/proc/self/fd/${fd}`)].filter((link) => kind.test(link))
    } catch {
      return [] // the directory's own
    }
  })
const isUp = async ({ pod }: DhcpSite) => (await linkOf(pod, "eth0")).flags.includes("UP")
const result = (address: string) => ({
  interfaces: [],
  ips: [{ address, gateway: "10.1.2.1" }],
  routes: [{ dst: "0.0.0.0/0", gw: "10.1.2.1" }],
  dns: {},
})

test("a lease is on record before it is asked for, and held once the server has said so; nothing is open then", async () => {
  using site = await DhcpSite.create(host)
  const before = open()
  const caller = site.allocate()
  const discover = site.hear("DISCOVER")
  expect([await isUp(site), site.records, site.tenant.result]).toEqual([true, [], undefined])
  expect(site.tenant.descriptors).toHaveLength(1)
  site.reply("OFFER", discover, "10.1.2.3")
  expect(site.records).toMatchObject([{ progress: "acquiring", clients: [{ phase: "requesting" }] }])
  expect(site.hasMore).toBe(true)
  expect(caller.told).toEqual([])
  site.now += 1000
  site.reply("ACK", site.hear("REQUEST"), "10.1.2.3")
  expect(caller.told).toEqual([result("10.1.2.3/24")])
  expect(site.tenant.result).toEqual(result("10.1.2.3/24"))
  expect([open().toSorted(), site.tenant.descriptors]).toEqual([before.toSorted(), []])
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
  expect(Math.abs(Date.now() - writtenAt)).toBeLessThan(60_000)
  expect([config.socketPath, clients.length, clients[0].phase, clients[0].lease.address, others]).toEqual([
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
  for (const { told } of [first, second, third]) expect(told).toEqual([result("10.1.2.3/24")])
  expect([site.hasMore, site.service.tenants.size]).toEqual([false, 1])
})

describe("without a carrier", () => {
  test("DISCOVER is sent after five seconds all the same", async () => {
    using site = await DhcpSite.create(host, { carrier: false })
    site.allocate()
    expect([await isUp(site), site.hasMore, site.tenant.descriptors.length]).toEqual([true, false, 1])
    expect([site.pass(), site.pass()]).toEqual([2000, 2000]) // to look after the namespace
    expect([site.records, site.tenant.descriptors.length]).toEqual([[], 1])
    expect(site.pass()).toBe(1000)
    expect(site.tenant.descriptors).toHaveLength(1) // the socket for answers, and no events any more
    await host.exec("ip", ["link", "set", site.link, "up"])
    const isReady = async () => (await linkOf(site.pod, "eth0")).operstate === "UP"
    await waitFor(isReady, "the kernel to notice the carrier")
    while (!site.hasMore) site.pass()
    expect([site.hear("DISCOVER").secs, site.now]).toEqual([4, 1_009_000]) // the first one was dropped
  })

  test("nothing is sent until it is there, and then at once", async () => {
    using site = await DhcpSite.create(host, { carrier: false })
    site.allocate()
    site.tenant.onReadable(new Uint8Array(100)) // another event
    expect(site.tenant.descriptors).toHaveLength(1)
    await host.exec("ip", ["link", "set", site.link, "up"])
    expect([site.hear("DISCOVER").secs, site.now]).toEqual([0, 1_000_000])
    expect(site.tenant.descriptors).toHaveLength(1)
    expect(site.pass()).toBe(2000)
  })
})

describe("without an answer ADD ends with an error that says what was missing, where, and what was seen", () => {
  const none = "none: is the parent's switch port right?"
  const giveUp = (site: DhcpSite) => {
    while (site.service.tenants.size > 0) site.pass()
  }

  test.each([
    [["-resendtimeout", "30s"], {}, 30, "OFFER"],
    [["-resendtimeout", "30s"], { timeout: 7 }, 7, "OFFER"],
    [["-resendtimeout", "30s"], { timeout: 70 }, 30, "OFFER"],
    [["-resendtimeout", "3s"], {}, 3, "carrier"],
  ])("%j %j: after %d seconds, no %s", async (flags, ipam, seconds, missing) => {
    using site = await DhcpSite.create(host, { flags, carrier: missing !== "carrier" })
    const before = open()
    const caller = site.allocate(site.call(ipam))
    if (missing !== "carrier") site.hear("DISCOVER")
    giveUp(site)
    const where = `on "eth0" (${mac}) in "${site.pod.path}"`
    expect(caller.told).toEqual([`no more tries: no ${missing} in ${seconds} s ${where}; last packet seen: ${none}`])
    expect([site.now - 1_000_000, site.records, open().length]).toEqual([seconds * 1000, [], before.length])
  })

  test("what was offered is given back", async () => {
    using site = await DhcpSite.create(host, { flags: ["-resendtimeout", "9s", "-timeout", "4s"] })
    const caller = site.allocate()
    site.reply("OFFER", site.hear("DISCOVER"), "10.1.2.3")
    site.hear("REQUEST")
    site.pass() // 2: the namespace
    site.pass() // 4: again
    site.hear("REQUEST")
    giveUp(site)
    const { told } = caller
    expect(told).toEqual([
      `no more tries: no ACK from server 10.1.2.1 in 9 s on "eth0" (${mac}) in "${site.pod.path}"; last packet seen: OFFER of 10.1.2.3 from 10.1.2.1`,
    ])
    expect(site.hear("RELEASE")).toMatchObject({ clientAddress: "10.1.2.3" })
    expect(site.records).toEqual([])
  })
})

describe("a caller that goes", () => {
  test("while another waits changes nothing; the last one takes the lease along", async () => {
    using site = await DhcpSite.create(host)
    const [first, second] = [site.allocate(), site.allocate()]
    site.reply("OFFER", site.hear("DISCOVER"), "10.1.2.3")
    site.hear("REQUEST")
    const { tenant } = site
    site.service.abandon(tenant, first)
    site.service.abandon(tenant, first)
    expect([site.service.tenants.size, site.records.length, site.hasMore]).toEqual([1, 1, false])
    site.service.abandon(tenant, second)
    expect([site.service.tenants.size, site.records, tenant.descriptors]).toEqual([0, [], []])
    site.hear("RELEASE")
    expect([first.told, second.told]).toEqual([[], []])
  })

  test("once it was answered leaves the lease alone", async () => {
    using site = await DhcpSite.create(host)
    const caller = site.lease()
    site.service.abandon(site.tenant, caller)
    expect([site.service.tenants.size, site.hasMore]).toEqual([1, false])
  })
})

test.each([
  ["the link", "eth7", (path: string) => [path, `error looking up "eth7" in "${path}": Link not found`]],
  ["the namespace", "eth0", () => ["/run/netns/none", expect.stringContaining("/run/netns/none")]],
])("%s that is not there is a refusal, and leaves nothing open", async (_, ifName, expected) => {
  using site = await DhcpSite.create(host)
  const before = open()
  const [netns, message] = expected(site.pod.path)
  const refused = () => site.allocate(site.call({}, { ifName, netns }))
  expect(refused).toThrow(expect.objectContaining({ name: "Refusal", message }))
  expect([site.service.tenants.size, site.records, open()]).toEqual([0, [], before])
})

describe("while a lease is acquired", () => {
  test("a link that is taken down is brought up again to send", async () => {
    using site = await DhcpSite.create(host)
    site.allocate()
    site.hear("DISCOVER")
    await site.pod.exec("ip", ["link", "set", "eth0", "down"])
    site.waitUntil("the socket to say so", () => true)
    while (!site.hasMore) site.pass()
    site.hear("DISCOVER")
    expect(await isUp(site)).toBe(true)
  })

  test("a link that goes is the end of it", async () => {
    using site = await DhcpSite.create(host)
    const caller = site.allocate()
    site.hear("DISCOVER")
    const { tenant } = site
    await site.pod.exec("ip", ["link", "del", "eth0"])
    site.waitUntil("the end", () => tenant.isGone)
    expect(caller.told).toEqual([`"eth0" in "${site.pod.path}" has gone`])
    expect([tenant.descriptors, tenant.due, tenant.isOver]).toEqual([[], undefined, true])
    site.service.forgetIfOver(tenant)
    expect([site.service.tenants.size, site.records]).toEqual([0, []])
  })

  test("a namespace that goes is let go of within two seconds", async () => {
    using site = await DhcpSite.create(host)
    const before = open(/netns/)
    const caller = site.allocate()
    site.hear("DISCOVER")
    const { tenant } = site
    tenant.look()
    expect(tenant.isGone).toBe(false)
    await host.removeContainer(site.pod)
    expect(site.pass()).toBe(2000)
    expect(caller.told).toEqual([`"eth0" in "${site.pod.path}" has gone`])
    expect([tenant.isGone, open(/netns/)]).toEqual([true, before])
  })

  test("an ADD for another link of this name begins anew", async () => {
    using site = await DhcpSite.create(host)
    const first = site.lease()
    expect(first.told).toHaveLength(1)
    const old = site.tenant
    await site.pod.exec("ip", ["link", "set", "eth0", "address", "0a:58:0a:01:02:99"])
    const second = site.allocate()
    expect([site.tenant === old, second.told]).toEqual([false, []])
    expect(site.records).toEqual([])
  })

  test("sixty-four frames are taken at once, the rest after the others' turn", async () => {
    using site = await DhcpSite.create(host)
    site.allocate()
    const { xid } = site.hear("DISCOVER")
    const other = site.answer("OFFER", { xid: xid + 1 }, "10.1.2.9")
    site.send(...Array.from({ length: 64 }, () => other), site.answer("OFFER", { xid }, "10.1.2.3"))
    expect([site.records, site.hasMore]).toEqual([[], false])
    site.hear("REQUEST")
  })
})

test("an address that another machine probes for is declined; without probes nobody listens for that", async () => {
  using site = await DhcpSite.create(host)
  const isProbe = (frame: Uint8Array) => frame[12] === 8 && frame[13] === 6
  const user = encodeProbe("0a:58:0a:01:02:77", Uint8Array.of(10, 1, 2, 3))
  const caller = site.lease({ probe: true })
  expect([caller.told, site.tenant.descriptors.length]).toEqual([[], 1])
  site.hearFrame(isProbe)
  site.send(user)
  expect(site.hear("DECLINE").options[50]).toBe("0a010203")
  site.service.release(site.call())
  site.allocate()
  const { xid } = site.hear("DISCOVER")
  site.send(user, site.answer("OFFER", { xid }, "10.1.2.3"))
  site.hear("REQUEST")
})
