/** The interface while its lease is renewed, changes and ends, judged with `ip` on a link of the kernel. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test"
import { addressesOf, HostNamespace, linkOf } from "../../lab/mod.ts"
import { leftOpen, openInKernel } from "../open-files.ts"
import { DhcpSite, mac, serverMac } from "./dhcp-site.fixture.ts"

let host: HostNamespace
beforeAll(async () => {
  host = await HostNamespace.create("dhcp")
})
afterAll(() => host[Symbol.asyncDispose]())

/** The work of the interface plugin with the result, besides bringing the interface up. */
async function configure({ pod }: DhcpSite, address = "10.1.2.3/24"): Promise<void> {
  await pod.exec("ip", ["address", "add", address, "dev", "eth0"])
  await pod.exec("ip", ["route", "add", "default", "via", "10.1.2.1", "dev", "eth0"])
}

/** The interface: whether it is up, its MTU and addresses, and the routes by it. */
async function stateOf({ pod }: DhcpSite) {
  const { flags, mtu } = await linkOf(pod, "eth0")
  const { stdout } = await pod.exec("ip", ["-4", "route", "show", "dev", "eth0"])
  const routes = stdout.split("\n").map((line) => line.trim())
  return {
    isUp: flags.includes("UP"),
    mtu,
    addresses: await addressesOf(pod, "eth0"),
    routes: routes.filter((line) => line !== "" && !line.includes("proto kernel")),
  }
}

const hour = 3_600_000
/** T1 and T2 come a little sooner, by chance that the tests do not have: half of 1/32. */
const t1 = Math.round(hour / 2 - hour / 2 / 64)
const t2 = Math.round((hour * 7) / 8 - (hour * 7) / 8 / 64)
const states = (site: DhcpSite) => site.records.flatMap(({ clients }) => clients)

let site: DhcpSite
/** A lease of an hour, which the interface has. */
beforeEach(async () => {
  site?.[Symbol.dispose]()
  site = await DhcpSite.create(host)
  site.lease()
  await configure(site)
})
afterAll(() => site[Symbol.dispose]())
const asItWas = { isUp: true, mtu: 1500, addresses: ["10.1.2.3/24"], routes: ["default via 10.1.2.1"] }

describe("a renewal", () => {
  test("is asked of the server itself at T1, and leaves the interface as it is when nothing has changed", async () => {
    expect([site.holder.due, site.pass()]).toEqual([1_000_000 + t1, t1])
    const request = site.hear("REQUEST")
    const wanted = { toMac: serverMac, from: "10.1.2.3", to: "10.1.2.1", clientAddress: "10.1.2.3" }
    expect(request).toMatchObject(wanted)
    expect(site.holder.link.descriptors).toHaveLength(1)
    site.reply("ACK", request, "10.1.2.3")
    expect(await stateOf(site)).toEqual(asItWas)
    expect(site.holder.link.descriptors).toEqual([])
    expect(states(site)).toMatchObject([{ phase: "bound", lease: { since: site.now, expiresAt: site.now + hour } }])
    expect(site.log).toEqual([])
  })

  test("brings other routes, another MTU and priority, and takes away the routes of before", async () => {
    site.pass()
    site.reply("ACK", site.hear("REQUEST"), "10.1.2.3", { 26: "0578", 121: "10c0a80a010209000a0102fe" })
    expect(await stateOf(site)).toEqual({
      ...asItWas,
      mtu: 1400,
      routes: ["default via 10.1.2.254", "192.168.0.0/16 via 10.1.2.9"],
    })
    site.pass()
    site.reply("ACK", site.hear("REQUEST"), "10.1.2.3", { 3: "0a0102fe" })
    expect(await stateOf(site)).toEqual({ ...asItWas, mtu: 1400, routes: ["default via 10.1.2.254"] })
  })

  test("with another address puts that in the place of the one before, and the routes by it", async () => {
    site.pass()
    site.reply("ACK", site.hear("REQUEST"), "10.1.2.4")
    expect(await stateOf(site)).toEqual({ ...asItWas, addresses: ["10.1.2.4/24"] })
    expect(site.holder.result?.ips).toEqual([{ address: "10.1.2.4/24", gateway: "10.1.2.1" }])
    expect(states(site)[0]?.lease?.address).toBe("10.1.2.4/24")
  })

  test("goes on where the address, or a route, has been taken off in the meantime", async () => {
    await site.pod.exec("ip", ["address", "flush", "dev", "eth0"])
    site.pass()
    site.reply("ACK", site.hear("REQUEST"), "10.1.2.4", { 3: "0a0102fe" })
    expect(await stateOf(site)).toEqual({ ...asItWas, addresses: ["10.1.2.4/24"], routes: ["default via 10.1.2.254"] })
    expect(site.log).toEqual([])
  })

  test("that the kernel cannot follow is told, and the lease goes on", async () => {
    site.pass()
    site.reply("ACK", site.hear("REQUEST"), "10.1.2.3", { 121: "200a0909090a0102ff" })
    expect(site.log).toEqual([
      expect.stringMatching(
        /^box\/net\/eth0: Cannot change the interface for 10\.1\.2\.3\/24: Cannot set a route; .* \(EINVAL\)$/,
      ),
    ])
    expect(states(site)).toMatchObject([{ phase: "bound" }])
  })

  test("that is not answered is asked of all servers at T2, and does not set up an interface that was set down", async () => {
    await site.pod.exec("ip", ["link", "set", "eth0", "down"])
    expect(site.pass()).toBe(t1)
    while (site.now < 1_000_000 + t2) site.pass()
    expect((await linkOf(site.pod, "eth0")).flags).not.toContain("UP")
    await site.pod.exec("ip", ["link", "set", "eth0", "up"])
    await site.pod.exec("ip", ["route", "add", "default", "via", "10.1.2.1", "dev", "eth0"])
    while (!site.hasMore) site.pass()
    const request = site.hear("REQUEST")
    expect(request).toMatchObject({ toMac: "ff:ff:ff:ff:ff:ff", from: "10.1.2.3", to: "255.255.255.255" })
    site.reply("ACK", request, "10.1.2.3")
    expect(await stateOf(site)).toEqual(asItWas)
  })
})

describe("a lease that is lost", () => {
  test("takes its address off the interface, which is down until there is another", async () => {
    site.pass()
    site.reply("NAK", site.hear("REQUEST"), "0.0.0.0", { 56: "676f" })
    expect(site.log).toEqual(['box/net/eth0: lost 10.1.2.3/24: NAK from 10.1.2.1: "go"'])
    expect([site.holder.result, site.holder.clients.leases]).toEqual([undefined, []])
    expect(states(site)).toMatchObject([{ phase: "selecting" }])
    expect(await stateOf(site)).toEqual({ isUp: true, mtu: 1500, addresses: [], routes: [] }) // up to ask
    const discover = site.hear("DISCOVER")
    site.reply("OFFER", discover, "10.1.2.9", { 26: "0578" })
    expect((await stateOf(site)).mtu).toBe(1500)
    site.reply("ACK", site.hear("REQUEST"), "10.1.2.9", { 26: "0578" })
    expect(await stateOf(site)).toEqual({ ...asItWas, mtu: 1400, addresses: ["10.1.2.9/24"] })
    expect(site.holder.result?.ips).toEqual([{ address: "10.1.2.9/24", gateway: "10.1.2.1" }])
    expect(site.log).toHaveLength(1)
  })

  test("when it has expired leaves the interface down between two attempts", async () => {
    while (site.now < 1_000_000 + hour) site.pass()
    expect(site.log).toEqual(["box/net/eth0: lost 10.1.2.3/24: the lease of 10.1.2.3 has expired"])
    const before = await stateOf(site)
    expect(before).toEqual({ isUp: true, mtu: 1500, addresses: [], routes: [] })
    while (site.holder.link.descriptors.length > 0) site.pass()
    expect(await stateOf(site)).toEqual({ ...before, isUp: false })
    expect(site.holder.link.descriptors).toEqual([])
    site.pass()
    expect(await stateOf(site)).toEqual(before)
    site.waitUntil("the carrier, and nothing more of the link", () => site.holder.link.descriptors.length === 1)
  })

  test("is followed by one that raises an interface that was taken down while its address was probed for", async () => {
    using other = await DhcpSite.create(host)
    const caller = other.lease({ probe: true })
    while (caller.answers.length === 0) other.pass()
    await configure(other)
    other.pass()
    other.reply("NAK", other.hear("REQUEST"), "0.0.0.0")
    other.reply("OFFER", other.hear("DISCOVER"), "10.1.2.9")
    other.reply("ACK", other.hear("REQUEST"), "10.1.2.9")
    for (let probes = 1; probes < 3; probes++) expect(other.pass()).toBeLessThan(500)
    await other.pod.exec("ip", ["link", "set", "eth0", "down"])
    other.pass()
    expect(await stateOf(other)).toEqual({ ...asItWas, addresses: ["10.1.2.9/24"] })
  })

  test("on an interface that was taken down already is treated as lost", async () => {
    await site.pod.exec("ip", ["address", "del", "10.1.2.3/24", "dev", "eth0"])
    site.pass()
    site.reply("NAK", site.hear("REQUEST"), "0.0.0.0")
    expect(site.log).toEqual(["box/net/eth0: lost 10.1.2.3/24: NAK from 10.1.2.1"])
  })
})

describe("an interface that no longer exists", () => {
  test("is found out when its lease is to be renewed, and the lease is forgotten when it has expired", async () => {
    await site.pod.exec("ip", ["link", "del", "eth0"])
    const { holder } = site
    const before = openInKernel()
    site.pass()
    expect([holder.isGone, holder.due, holder.isOver]).toEqual([true, 1_000_000 + hour, false])
    expect(leftOpen(before)).toEqual([])
    site.service.forgetIfOver(holder)
    expect(site.service.holders.size).toBe(1)
    site.now = 1_000_000 + hour - 1
    expect(holder.isOver).toBe(false)
    site.now++
    expect(holder.isOver).toBe(true)
    site.service.forgetIfOver(holder)
    expect([site.service.holders.size, site.records]).toEqual([0, []])
  })

  test("is not found in another one of its name and its hardware address", async () => {
    const [link] = await site.pod.json<{ address: string }[]>("ip", ["-j", "link", "show", "eth0"])
    await site.pod.exec("ip", ["link", "del", "eth0"])
    await site.pod.exec("ip", ["link", "add", "eth0", "address", link?.address ?? "", "type", "bridge"])
    site.pass()
    expect(site.holder.isGone).toBe(true)
  })

  test("is not one whose hardware address has changed", async () => {
    await site.pod.exec("ip", ["link", "set", "eth0", "address", "0a:58:0a:01:02:99"])
    site.pass()
    expect(site.holder.isGone).toBe(false)
    site.hear("REQUEST")
  })

  test("while its server is asked ends that", async () => {
    site.pass()
    site.hear("REQUEST")
    await site.pod.exec("ip", ["link", "del", "eth0"])
    site.waitUntil("the end", () => site.holder.isGone)
    expect(site.holder.link.descriptors).toEqual([])
  })
})

test("the routes of a priority are renewed and set with it", async () => {
  using other = await DhcpSite.create(host)
  other.lease({ priority: 7 })
  await other.pod.exec("ip", ["address", "add", "10.1.2.3/24", "dev", "eth0"])
  other.pass()
  other.reply("ACK", other.hear("REQUEST"), "10.1.2.3", { 3: "0a0102fe" })
  expect((await stateOf(other)).routes).toEqual(["default via 10.1.2.254 metric 7"])
  expect((await linkOf(other.pod, "eth0")).address).toBe(mac)
})
