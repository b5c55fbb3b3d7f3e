/** The daemon's answers about its leases, and its treatment of the journal, on links of the kernel. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { addressesOf, HostNamespace } from "../../lab/mod.ts"
import { leftOpen, openInKernel } from "../open-files.ts"
import { DhcpSite, serverMac } from "./dhcp-site.fixture.ts"

let host: HostNamespace
beforeAll(async () => {
  host = await HostNamespace.create("dhcp")
})
afterAll(() => host[Symbol.asyncDispose]())

const hour = 3_600_000
const refusal = (message: unknown) => expect.objectContaining({ name: "Refusal", message })

describe("a release", () => {
  test("tells the server from the address itself, and forgets the lease, with any other configuration", async () => {
    using site = await DhcpSite.create(host)
    site.lease()
    await site.pod.exec("ip", ["address", "add", "10.1.2.3/24", "dev", "eth0"])
    const before = openInKernel()
    site.service.release(site.call({ provide: 5 }))
    const release = site.hear("RELEASE")
    expect(release).toMatchObject({ toMac: serverMac, from: "10.1.2.3", to: "10.1.2.1", clientAddress: "10.1.2.3" })
    expect(release.options).toEqual({ 53: "07", 54: "0a010201", 61: "00626f782f6e65742f65746830" })
    expect([site.service.holders.size, site.records, site.hasMore, site.log]).toEqual([0, [], false, []])
    expect(leftOpen(before)).toEqual([])
    expect(await addressesOf(site.pod, "eth0")).toEqual(["10.1.2.3/24"]) // left to the plugin that has made the interface
    site.service.release(site.call())
    expect(site.hasMore).toBe(false)
  })

  test("is of one container, network and interface", async () => {
    using site = await DhcpSite.create(host)
    site.lease()
    for (const other of [{ containerId: "bo" }, { ifName: "eth1" }, { name: "other" }])
      site.service.release(site.call({}, other))
    expect([site.service.holders.size, site.hasMore]).toEqual([1, false])
  })

  test("while an ADD waits ends that", async () => {
    using site = await DhcpSite.create(host)
    const caller = site.allocate()
    site.hear("DISCOVER")
    const { holder } = site
    site.service.release(site.call())
    expect([caller.answers, holder.link.descriptors, holder.due, site.records]).toEqual([
      ["the lease was released during the call"],
      [],
      undefined,
      [],
    ])
    site.service.onTime(holder)
    expect(site.hasMore).toBe(false)
  })

  test("before frames pass sends nothing when they do", async () => {
    using site = await DhcpSite.create(host, { carrier: false })
    site.allocate()
    const { holder } = site
    site.service.release(site.call())
    expect([holder.due, holder.link.descriptors]).toEqual([undefined, []])
  })

  test.each([
    ["link", (site: DhcpSite) => site.pod.exec("ip", ["link", "del", "eth0"])],
    ["namespace", (site: DhcpSite) => host.removeContainer(site.pod)],
  ])("of a %s that no longer exists leaves nothing", async (_, remove) => {
    using site = await DhcpSite.create(host)
    site.lease()
    await remove(site)
    site.service.release(site.call())
    expect([site.service.holders.size, site.records, site.log]).toEqual([0, [], []])
  })
})

describe("a check", () => {
  const result = (...addresses: string[]) => ({
    prevResult: { cniVersion: "1.1.0", ips: addresses.map((address) => ({ address })) },
  })

  test("finds the lease that ADD was answered with, and sends nothing", async () => {
    using site = await DhcpSite.create(host)
    site.lease()
    const before = openInKernel()
    site.service.check(site.call({}, result("10.1.2.3/24", "192.0.2.1/24"))) // another plugin's address
    site.service.check(site.call({}, result()))
    site.service.check(site.call({}))
    expect([site.hasMore, leftOpen(before)]).toEqual([false, []])
  })

  test.each([
    [{}, { containerId: "other" }, "no lease for other/net/eth0"],
    [{}, result("10.1.2.4/24"), "expected 10.1.2.4/24, and 10.1.2.3/24 is leased"],
    [
      {},
      { netns: "/proc/self/ns/net" },
      'the lease of box/net/eth0 is of another interface than "eth0" in "/proc/self/ns/net": that is another namespace now',
    ],
    [
      {},
      { netns: "/none" },
      'the lease of box/net/eth0 is of another interface than "eth0" in "/none": that is another namespace now',
    ],
  ])("is refused: %j %j", async (ipam, more, message) => {
    using site = await DhcpSite.create(host)
    site.lease()
    expect(() => site.service.check(site.call(ipam, more))).toThrow(refusal(message))
  })

  test("is refused once the lease is lost, and when the interface no longer exists", async () => {
    using site = await DhcpSite.create(host)
    site.lease()
    site.pass()
    site.reply("NAK", site.hear("REQUEST"), "0.0.0.0")
    expect(() => site.service.check(site.call({}, result("10.1.2.3/24")))).toThrow(
      refusal("the lease of box/net/eth0 is lost, and there is no new one yet"),
    )
    await site.pod.exec("ip", ["link", "del", "eth0"])
    expect(() => site.service.check(site.call())).toThrow(refusal(expect.stringContaining("is of another interface")))
  })

  test("of what is no configuration is refused with what is wrong", async () => {
    using site = await DhcpSite.create(host)
    const call = { ...site.call(), stdin: new TextEncoder().encode("[]") }
    expect(() => site.service.check(call)).toThrow(refusal(expect.stringMatching(/configuration/)))
    expect(() => site.allocate(site.call({ timeout: 0 }))).toThrow(refusal(expect.stringContaining('"ipam.timeout"')))
  })
})

describe("a collection", () => {
  const valid = (...ids: string[]) => ({
    "cni.dev/valid-attachments": ids.map((containerID) => ({ containerID, ifname: "eth0" })),
  })

  test("gives back the leases of the network's attachments that are not valid any more", async () => {
    using site = await DhcpSite.create(host)
    site.lease()
    site.service.collect(site.call()) // without a list
    site.service.collect(site.call({}, valid("other", "box")))
    site.service.collect(site.call({}, { ...valid("other"), name: "other" }))
    expect([site.service.holders.size, site.hasMore]).toEqual([1, false])
    site.service.collect(site.call({}, valid("other")))
    expect([site.service.holders.size, site.records]).toEqual([0, []])
    site.hear("RELEASE")
  })

  test("goes by the interface, too", async () => {
    using site = await DhcpSite.create(host)
    site.lease()
    site.service.collect(site.call({}, { "cni.dev/valid-attachments": [{ containerID: "box", ifname: "eth1" }] }))
    expect(site.service.holders.size).toBe(0)
  })
})

describe("another daemon", () => {
  test("goes on with the leases that are held, and does nothing before their time", async () => {
    using site = await DhcpSite.create(host)
    site.lease()
    const { due } = site.holder
    const before = site.records
    site.restart()
    expect([site.holder.key, site.holder.due, site.holder.link.descriptors]).toEqual(["box/net/eth0", due, []])
    expect([site.records, site.hasMore, site.holder.subject.network]).toEqual([before, false, "net"])
    site.pass()
    expect(site.hear("REQUEST").from).toBe("10.1.2.3") // renewed, and not asked for again
  })

  test("asks every server whether a lease still holds whose time came in the meantime", async () => {
    using site = await DhcpSite.create(host)
    site.lease()
    site.now = site.holder.due ?? 0
    site.restart()
    site.pass()
    const request = site.hear("REQUEST")
    expect([request.from, request.options[50], request.toMac]).toEqual(["0.0.0.0", "0a010203", "ff:ff:ff:ff:ff:ff"])
    site.reply("ACK", request, "10.1.2.3")
    site.pass()
    expect(site.hear("REQUEST").from).toBe("10.1.2.3") // and renews it from then on
  })

  test("gives back a lease that no call waits for any more", async () => {
    using site = await DhcpSite.create(host)
    const before = openInKernel()
    site.allocate()
    site.reply("OFFER", site.hear("DISCOVER"), "10.1.2.3")
    site.hear("REQUEST")
    site.holder.close("the daemon was killed")
    site.restart()
    expect([site.service.holders.size, site.records, leftOpen(before)]).toEqual([0, [], []])
    expect(site.hear("RELEASE").clientAddress).toBe("10.1.2.3")
  })

  test("forgets what an earlier boot had", async () => {
    using site = await DhcpSite.create(host)
    site.lease()
    site.restart("another boot")
    expect([site.service.holders.size, site.records, site.hasMore]).toEqual([0, [], false])
  })

  test("keeps the lease of a namespace that no longer exists until it has expired, so that none takes its place", async () => {
    using site = await DhcpSite.create(host)
    site.lease()
    await host.removeContainer(site.pod)
    const { holders } = site.restart()
    expect([site.holder.isGone, site.holder.due, holders.size]).toEqual([true, 1_000_000 + hour, 1])
  })
})

test("with a prefix the namespace's path is below that", async () => {
  using site = await DhcpSite.create(host, { flags: ["-hostprefix", "/proc/self/root"] })
  site.lease()
  expect(site.records[0]?.namespace.path).toBe(`/proc/self/root${site.pod.path}`)
  site.service.check(site.call())
})
