/** How dhcp gives up a lease that it cannot acquire, on a kernel's link that changes during the attempt. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { HostNamespace, linkOf } from "../../lab/mod.ts"
import { leftOpen, openInKernel } from "../open-files.ts"
import { DhcpSite, mac } from "./dhcp-site.fixture.ts"

let host: HostNamespace
beforeAll(async () => {
  host = await HostNamespace.create("dhcp")
})
afterAll(() => host[Symbol.asyncDispose]())

const isUp = async ({ pod }: DhcpSite) => (await linkOf(pod, "eth0")).flags.includes("UP")

describe("without an answer ADD ends with an error that says what was missing, where, and what was seen", () => {
  const none = "none: is the parent's switch port right?"
  const giveUp = (site: DhcpSite) => {
    while (site.service.holders.size > 0) site.pass()
  }

  test.each([
    [["-resendtimeout", "30s"], {}, 30, "OFFER"],
    [["-resendtimeout", "30s"], { timeout: 7 }, 7, "OFFER"],
    [["-resendtimeout", "30s"], { timeout: 70 }, 30, "OFFER"],
    [["-resendtimeout", "3s"], {}, 3, "carrier"],
  ])("%j %j: after %d seconds, no %s", async (flags, ipam, seconds, missing) => {
    using site = await DhcpSite.create(host, { flags, carrier: missing !== "carrier" })
    const before = openInKernel()
    const caller = site.allocate(site.call(ipam))
    if (missing !== "carrier") site.hear("DISCOVER")
    giveUp(site)
    const where = `on "eth0" (${mac}) in "${site.pod.path}"`
    expect(caller.answers).toEqual([`no more tries: no ${missing} in ${seconds} s ${where}; last packet seen: ${none}`])
    expect([site.now - 1_000_000, site.records, leftOpen(before)]).toEqual([seconds * 1000, [], []])
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
    const { answers } = caller
    expect(answers).toEqual([
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
    const { holder } = site
    site.service.abandon(holder, first)
    site.service.abandon(holder, first)
    expect([site.service.holders.size, site.records.length, site.hasMore]).toEqual([1, 1, false])
    site.service.abandon(holder, second)
    expect([site.service.holders.size, site.records, holder.link.descriptors]).toEqual([0, [], []])
    site.hear("RELEASE")
    expect([first.answers, second.answers]).toEqual([[], []])
  })

  test("once it was answered leaves the lease alone", async () => {
    using site = await DhcpSite.create(host)
    const caller = site.lease()
    site.service.abandon(site.holder, caller)
    expect([site.service.holders.size, site.hasMore]).toEqual([1, false])
  })
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
    const { holder } = site
    await site.pod.exec("ip", ["link", "del", "eth0"])
    site.waitUntil("the end", () => holder.isGone)
    expect(caller.answers).toEqual([`"eth0" in "${site.pod.path}" was deleted`])
    expect([holder.link.descriptors, holder.due, holder.isOver]).toEqual([[], undefined, true])
    site.service.forgetIfOver(holder)
    expect([site.service.holders.size, site.records]).toEqual([0, []])
  })

  test("a namespace that goes is let go of within two seconds", async () => {
    using site = await DhcpSite.create(host)
    const before = openInKernel(/netns/)
    const caller = site.allocate()
    site.hear("DISCOVER")
    const { holder } = site
    holder.checkNamespace()
    expect(holder.isGone).toBe(false)
    await host.removeContainer(site.pod)
    expect(site.pass()).toBe(2000)
    expect(caller.answers).toEqual([`"eth0" in "${site.pod.path}" was deleted`])
    expect([holder.isGone, leftOpen(before, /netns/)]).toEqual([true, []])
  })

  test("an ADD for another link of this name begins again", async () => {
    using site = await DhcpSite.create(host)
    const first = site.lease()
    expect(first.answers).toHaveLength(1)
    const old = site.holder
    await site.pod.exec("ip", ["link", "del", "eth0"])
    await site.pod.exec("ip", ["link", "add", "eth0", "up", "type", "bridge"])
    const second = site.allocate()
    expect([site.holder === old, second.answers]).toEqual([false, []])
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
