/** Tests DHCPv6 leases beside DHCPv4 leases, on a real link that may already have configuration from routers. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { answer6, association6, captured, config6, createClient, readPacket } from "../../../ipam/dhcp/testing/mod.ts"
import { addressesOf, HostNamespace, linkOf, readSysctl } from "../../lab/mod.ts"
import { DhcpSite } from "./dhcp-site.fixture.ts"

let host: HostNamespace
beforeAll(async () => {
  host = await HostNamespace.create("dhcp6")
})
afterAll(() => host[Symbol.asyncDispose]())

/** The message types of RFC 8415, 7.3. */
const types = { SOLICIT: 1, ADVERTISE: 2, REQUEST: 3, RENEW: 5, REPLY: 7, RELEASE: 8 } as const
const ofUs = "fe80::858:aff:fe01:203"

function messageOf(frame: Uint8Array) {
  const packet = readPacket(frame)
  return packet?.kind === "udp" && packet.to.port === 547 ? packet : undefined
}

/** Returns the client's next DHCPv6 message of this type. */
function hear6(site: DhcpSite, type: keyof typeof types) {
  const packet = messageOf(site.hearFrame((frame) => messageOf(frame)?.payload[0] === types[type]))
  const [, high = 0, middle = 0, low = 0] = packet?.payload ?? []
  const words =
    packet &&
    new Uint16Array(8).map((_, at) => ((packet.from.ip[2 * at] ?? 0) << 8) | (packet.from.ip[2 * at + 1] ?? 0))
  return {
    xid: (high << 16) | (middle << 8) | low,
    from: [...(words ?? [])].map((word) => word.toString(16)).join(":"),
  }
}

function reply6(site: DhcpSite, type: "ADVERTISE" | "REPLY", { xid }: { xid: number }, address = "2001:db8::5b"): void {
  site.send(answer6({ ...createClient(config6), xid }, types[type], [association6({ address })]))
}

/** Runs an ADD that both servers answer. The router advertisement has no options. */
function leaseBoth(site: DhcpSite) {
  const caller = site.allocate(site.call({ dhcpv6: true }))
  site.reply("OFFER", site.hear("DISCOVER"), "10.1.2.3")
  site.reply("ACK", site.hear("REQUEST"), "10.1.2.3")
  expect(caller.answers).toEqual([])
  reply6(site, "ADVERTISE", hear6(site, "SOLICIT"))
  reply6(site, "REPLY", hear6(site, "REQUEST"))
  expect([caller.answers, site.records[0]?.progress]).toEqual([[], "acquiring"])
  site.send(captured.routerAdvertisement)
  return caller
}

test("ADD is answered with both leases once there are both, and both are given back", async () => {
  using site = await DhcpSite.create(host)
  const { answers } = leaseBoth(site)
  const router = "fe80::858:aff:fe01:201"
  expect(answers).toMatchObject([
    {
      ips: [
        { address: "10.1.2.3/24", gateway: "10.1.2.1" },
        { address: "2001:db8::5b/64", gateway: router },
      ],
    },
  ])
  expect(site.records).toMatchObject([{ progress: "held", clients: [{ phase: "bound" }, { phase: "bound" }] }])
  expect([site.holder.link.descriptors, site.log]).toEqual([[], []])
  site.service.release(site.call())
  site.hear("RELEASE")
  expect(site.records).toEqual([])
})

test("a flood of router advertisements takes neither the answer of the server nor the time of other leases [S77]", async () => {
  using site = await DhcpSite.create(host)
  const caller = site.allocate(site.call({ dhcpv6: true }))
  site.reply("OFFER", site.hear("DISCOVER"), "10.1.2.3")
  site.reply("ACK", site.hear("REQUEST"), "10.1.2.3")
  const solicit = hear6(site, "SOLICIT")
  const flood = Array.from({ length: 3000 }, () => captured.routerAdvertisement)
  site.send(...flood, answer6({ ...createClient(config6), xid: solicit.xid }, types.ADVERTISE, [association6({})]))
  reply6(site, "REPLY", hear6(site, "REQUEST"))
  expect(caller.answers).toMatchObject([{ ips: [{ address: "10.1.2.3/24" }, { address: "2001:db8::5b/64" }] }])
})

test("after sixty-four router advertisements the others are left unread until the client asks again [S78]", async () => {
  using site = await DhcpSite.create(host)
  site.allocate(site.call({ dhcpv6: true }))
  site.hear("DISCOVER")
  hear6(site, "SOLICIT")
  const open = site.holder.link.descriptors.length
  site.send(...Array.from({ length: 70 }, () => captured.routerAdvertisement))
  for (let turns = 0; turns < 2; turns++) site.holder.onReadable(new Uint8Array(65_536))
  expect(site.holder.link.descriptors).toHaveLength(open - 1)
  while (!site.has((frame) => messageOf(frame)?.payload[0] === types.SOLICIT)) site.pass()
  expect(site.holder.link.descriptors).toHaveLength(open)
})

describe("the link's own address is waited for", () => {
  const none = async (site: DhcpSite) =>
    void (await site.pod.exec("ip", ["link", "set", "eth0", "addrgenmode", "none"]))

  test("and ADD ends with an error that says so, where the kernel makes none", async () => {
    using site = await DhcpSite.create(host, { flags: ["-resendtimeout", "30s"] })
    await none(site)
    const caller = site.allocate(site.call({ dhcpv6: true }))
    site.reply("OFFER", site.hear("DISCOVER"), "10.1.2.3")
    site.reply("ACK", site.hear("REQUEST"), "10.1.2.3")
    expect(site.holder.link.descriptors).toHaveLength(2) // the DHCPv4 socket and the event socket
    while (site.service.holders.size > 0) site.pass()
    expect(caller.answers).toEqual([expect.stringContaining("no more tries: no link-local IPv6 address in 30 s on ")])
    expect(site.hear("RELEASE").clientAddress).toBe("10.1.2.3")
  })

  test.each([
    ["that the kernel still probes for", "fe80::5/64", []],
    ["of another scope", "fec0::5/64", ["nodad"]],
    ["of the network", "2001:db8:7::5/64", ["nodad"]],
  ])("and not one %s", async (_, address, flags) => {
    using site = await DhcpSite.create(host)
    await none(site)
    await site.pod.exec("sysctl", ["-qw", "net.ipv6.conf.eth0.accept_dad=1", "net.ipv6.conf.eth0.dad_transmits=200"])
    site.allocate(site.call({ dhcpv6: true }))
    site.hear("DISCOVER")
    await site.pod.exec("ip", ["address", "add", address, "dev", "eth0", ...flags])
    site.holder.onReadable(new Uint8Array(65_536))
    expect(site.holder.link.descriptors).toHaveLength(2)
    await site.pod.exec("ip", ["address", "add", "febf::7/64", "dev", "eth0", "nodad"])
    expect(hear6(site, "SOLICIT").from).toBe("febf:0:0:0:0:0:0:7")
    expect(site.holder.link.descriptors).toHaveLength(3) // the sockets for DHCPv4, DHCPv6 and routers; the event socket is closed
  })
})

test.each([true, false])(
  "what the kernel has learnt from routers is in the way of DHCPv6 alone: %j",
  async (dhcpv6) => {
    using site = await DhcpSite.create(host)
    const { pod } = site
    await pod.exec("ip", ["link", "set", "eth0", "up"])
    await pod.exec("ip", ["link", "add", "other", "type", "veth", "peer", "name", "far"])
    for (const name of ["other", "far"]) await pod.exec("ip", ["link", "set", name, "up"])
    const learnt = ["default via fe80::9 dev eth0 proto ra", "2001:db8:a::/64 dev eth0 proto ra"]
    const kept = ["2001:db8:b::/64 dev eth0 proto static", "2001:db8:c::/64 dev other proto ra"]
    const addresses = ["2001:db8:9::5/64", "2001:db8:9::6/64"]
    for (const route of [...learnt, ...kept]) await pod.exec("ip", ["-6", "route", "add", ...route.split(" ")])
    await pod.exec("ip", [
      "address",
      "add",
      addresses[0] ?? "",
      "dev",
      "eth0",
      "nodad",
      "valid_lft",
      "900",
      "preferred_lft",
      "900",
    ])
    await pod.exec("ip", ["address", "add", addresses[1] ?? "", "dev", "eth0", "nodad"])
    site.allocate(site.call({ dhcpv6 }))
    const { stdout } = await pod.exec("ip", ["-6", "route", "show"])
    const routes = [...learnt, ...kept].filter((route) => stdout.includes(route))
    expect(routes).toEqual(dhcpv6 ? kept : [...learnt, ...kept])
    expect((await addressesOf(pod, "eth0")).toSorted()).toEqual(dhcpv6 ? addresses.slice(1) : addresses)
    const { stdout: own } = await pod.exec("ip", ["-6", "address", "show", "dev", "eth0", "scope", "link"])
    expect(own).toContain(`${ofUs}/64`)
    expect(await readSysctl(pod, "net/ipv6/conf/eth0/accept_ra")).toBe(dhcpv6 ? "0" : "1")
  },
)

describe("a lease of IPv6", () => {
  const usual = { addresses: ["10.1.2.3/24", "2001:db8::5b/64"], gateway: "fe80::858:aff:fe01:201", isUp: true }

  /** Returns a site whose container has an address of each family. */
  async function both() {
    const site = await DhcpSite.create(host)
    leaseBoth(site)
    await site.pod.exec("ip", ["address", "add", "10.1.2.3/24", "dev", "eth0"])
    await site.pod.exec("ip", ["address", "add", "2001:db8::5b/64", "dev", "eth0", "nodad"])
    await site.pod.exec("ip", ["-6", "route", "add", "default", "via", usual.gateway, "dev", "eth0"])
    return site
  }

  async function stateOf({ pod }: DhcpSite) {
    const routes = await pod.json<{ gateway: string }[]>("ip", ["-6", "-j", "route", "show", "default"])
    const isUp = (await linkOf(pod, "eth0")).flags.includes("UP")
    return { addresses: (await addressesOf(pod, "eth0")).toSorted(), gateway: routes[0]?.gateway, isUp }
  }

  test("is renewed at its own time, and another address takes the place of the one before", async () => {
    using site = await both()
    const before = site.now
    while (site.holder.link.descriptors.length === 0) site.pass()
    expect(site.now - before).toBeLessThanOrEqual(50_000)
    const renew = hear6(site, "RENEW")
    expect(renew.from).toBe("fe80:0:0:0:858:aff:fe01:203")
    reply6(site, "REPLY", renew, "2001:db8::6c")
    site.send(captured.routerAdvertisement)
    expect(await stateOf(site)).toEqual({ ...usual, addresses: ["10.1.2.3/24", "2001:db8::6c/64"] })
    expect([site.log, site.holder.link.descriptors]).toEqual([[], []])
  })

  test("that is lost takes its address and routes off an interface that stays up, and is asked for again", async () => {
    using site = await both()
    while (site.holder.clients.leases.length === 2) site.pass()
    expect(site.log).toEqual(["box/net/eth0: lost 2001:db8::5b/64: the lease of 2001:db8::5b has expired"])
    expect(await stateOf(site)).toMatchObject({ addresses: ["10.1.2.3/24"], isUp: true })
    await site.pod.exec("ip", ["link", "set", "eth0", "down"])
    for (let tries = 0; tries < 4; tries++) site.pass()
    expect((await stateOf(site)).isUp).toBe(false) // the DHCPv6 client does not bring up a link that another program took down
  })
})
