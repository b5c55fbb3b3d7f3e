import { describe, expect, test } from "bun:test"
import { Attachment, addressesOf, linkOf, type Namespace, newest, ping, pingOnce, waitFor } from "../lab/mod.ts"
import { Sniffer } from "./packets.ts"
import { type Server, startDhcpd, startDnsmasq } from "./servers.ts"
import { type LinkKind, Site, startDaemon } from "./site.ts"

const everyone = { to: "ff:ff:ff:ff:ff:ff", source: "0.0.0.0", destination: "255.255.255.255" }
const linkKinds: LinkKind[] = ["bridge", "macvlan"]

/** Returns the gateway of a container's default route. */
async function defaultRoute(pod: Namespace): Promise<string | undefined> {
  const [route] = await pod.json<{ gateway: string }[]>("ip", ["-4", "-j", "route", "show", "default"])
  return route?.gateway
}

describe.each(linkKinds)("over %s", (linkKind) => {
  test("ADD leases an address from dnsmasq, and DEL gives it back: dnsmasq sees that", async () => {
    await using site = await Site.create(linkKind)
    await using server = await startDnsmasq(site.server, site.directory.path, [
      "--dhcp-range=10.1.2.50,10.1.2.60,255.255.255.0,2m",
      "--dhcp-option=option:router,10.1.2.1",
      "--dhcp-option=option:dns-server,10.1.2.53",
      "--dhcp-option=option:domain-search,eng.example,example.com",
      "--dhcp-option=option:mtu,1400",
      "--dhcp-option=121,192.168.0.0/16,10.1.2.9,0.0.0.0/0,10.1.2.1",
      "--domain=lab.example",
    ])
    await using sniffer = await Sniffer.start(site.server, "eth0")
    const { pod, attachment } = await site.attach({ provide: [{ option: "host-name", value: "box9" }] })
    const result = await attachment.add()
    const address = result.ips[0]?.address ?? ""
    expect(result).toMatchObject({
      ips: [{ address: expect.stringMatching(/^10\.1\.2\.(5\d|60)\/24$/), gateway: "10.1.2.1" }],
      routes: [
        { dst: "192.168.0.0/16", gw: "10.1.2.9" },
        { dst: "0.0.0.0/0", gw: "10.1.2.1" },
      ],
      dns: { nameservers: ["10.1.2.53"], domain: "lab.example", search: ["eng.example", "example.com"] },
    })
    const { mtu, address: mac } = await linkOf(pod, "eth0")
    expect([mtu, await addressesOf(pod, "eth0"), await defaultRoute(pod)]).toEqual([1400, [address], "10.1.2.1"])
    expect(await ping(pod, "10.1.2.1")).toBe(true)

    // Properties that switches and servers depend on: both packets are broadcasts, and the client identifier is that of
    // the Go plugin.
    const ip = address.replace("/24", "")
    for (const type of ["Discover", "Request"]) {
      const packet = await sniffer.waitFor(type)
      expect(packet).toMatchObject({ ...everyone, from: mac })
      expect(packet).not.toHaveProperty("clientIp")
      expect(packet.text).toContain(`"${pod.name}/net/eth0"`)
      expect(packet.text).toContain('"box9"')
      expect(packet.text).not.toMatch(/\bbad\b|\bwrong\b|\btruncated\b|\[\|/)
    }
    expect(sniffer.packets("Request")[0]).toMatchObject({ requestedIp: ip, server: "10.1.2.1" })
    expect(await server.leases()).toContain(` ${ip} box9 `)

    await attachment.del()
    const release = await sniffer.waitFor("Release")
    const { address: serverMac } = await linkOf(site.server, "eth0")
    expect(release).toMatchObject({ from: mac, to: serverMac, source: ip, destination: "10.1.2.1", clientIp: ip })
    expect(release.text).not.toMatch(/\bbad\b|\bwrong\b/)
    await server.running.waitFor(new RegExp(`DHCPRELEASE\\(eth0\\) ${ip} ${mac}`))
    await waitFor(async () => !(await server.leases()).includes(` ${ip} `), "dnsmasq to forget the lease")
    await attachment.del() // repeated DEL
    expect(sniffer.packets("Release")).toHaveLength(1)
  })

  test("a lease of four seconds is renewed by unicast to its server, for as long as it is used", async () => {
    await using site = await Site.create(linkKind)
    await using server = await startDhcpd(site.server, site.path("dhcpd"))
    await using sniffer = await Sniffer.start(site.server, "eth0")
    const { pod, attachment } = await site.attach()
    const { ips } = await attachment.add()
    const ip = ips[0]?.address.replace("/24", "") ?? ""
    const [{ address: mac }, { address: serverMac }] = [await linkOf(pod, "eth0"), await linkOf(site.server, "eth0")]
    await waitFor(() => sniffer.packets("Request").length >= 4, "three renewals")
    const [selecting, ...renewals] = sniffer.packets("Request")
    expect(selecting).toMatchObject(everyone)
    for (const renewal of renewals) {
      expect(renewal).toMatchObject({ from: mac, to: serverMac, source: ip, destination: "10.1.2.1", clientIp: ip })
      expect(renewal).not.toHaveProperty("requestedIp")
      expect(renewal).not.toHaveProperty("server")
    }
    expect(sniffer.packets("Discover")).toHaveLength(1)
    await waitFor(() => server.running.count(/DHCPACK on/) >= 4, "the server to answer each of them")
    expect(await addressesOf(pod, "eth0")).toEqual([`${ip}/24`])
    expect(await ping(pod, "10.1.2.1")).toBe(true)
    await attachment.del()
    await server.running.waitFor(new RegExp(`DHCPRELEASE of ${ip} from ${mac} via eth0 \\(found\\)`))
  })
})

test.each(["tuning", "ip link"])("a lease survives another hardware address, set by %s after ADD", async (by) => {
  await using site = await Site.create("bridge")
  await using server = await startDhcpd(site.server, site.path("dhcpd"))
  await using sniffer = await Sniffer.start(site.server, "eth0")
  const { pod, attachment } = await site.attach()
  const added = await attachment.add()
  const mac = "02:00:00:00:00:77"
  if (by === "ip link") await pod.exec("ip", ["link", "set", "eth0", "address", mac])
  const config = { cniVersion: newest, name: "net", type: "tuning", mac, prevResult: added }
  const result = by === "tuning" ? await new Attachment(site.host, pod, config).add() : added
  const ip = added.ips[0]?.address.replace("/24", "") ?? ""
  await waitFor(() => sniffer.packets("Request").filter(({ from }) => from === mac).length >= 3, "three renewals")
  for (const renewal of sniffer.packets("Request").slice(1)) {
    expect(renewal).toMatchObject({ from: mac, source: ip, clientIp: ip })
    expect(renewal.text).toContain(`"${pod.name}/net/eth0"`)
  }
  await server.running.waitFor(new RegExp(`DHCPACK on ${ip} to ${mac}`))
  expect(sniffer.packets("Discover")).toHaveLength(1)
  expect(await addressesOf(pod, "eth0")).toEqual([`${ip}/24`])
  expect(await ping(pod, "10.1.2.1")).toBe(true)
  expect(site.daemon.text).toMatch(new RegExp(`the hardware address changed from .* to ${mac}`))
  if (by === "tuning") expect(await attachment.check(result)).toMatchObject({ exitCode: 0 })
  await attachment.del()
  await server.running.waitFor(new RegExp(`DHCPRELEASE of ${ip} from ${mac} via eth0 \\(found\\)`))
})

test("a default route that the configuration has not asked for stays out of the container, though the server forces it", async () => {
  await using site = await Site.create("bridge")
  await using _server = await startDnsmasq(site.server, site.directory.path, [
    "--dhcp-range=10.1.2.50,10.1.2.60,255.255.255.0,2m",
    "--dhcp-option-force=option:router,10.1.2.1",
    "--dhcp-option-force=121,192.168.0.0/16,10.1.2.9,0.0.0.0/0,10.1.2.1",
  ])
  const { pod, attachment } = await site.attach({ request: [{ skipDefault: true }, { option: "subnet-mask" }] })
  const result = await attachment.add()
  expect(result.routes).toEqual([{ dst: "192.168.0.0/16", gw: "10.1.2.9" }])
  expect(result.ips[0]).not.toHaveProperty("gateway")
  expect(await defaultRoute(pod)).toBeUndefined()
  const asking = await site.attach()
  await asking.attachment.add()
  expect(await defaultRoute(asking.pod)).toBe("10.1.2.1")
})

test("a renewal that brings another router and MTU changes the interface", async () => {
  await using site = await Site.create("bridge")
  const first = await startDhcpd(site.server, site.path("dhcpd"))
  const { pod, attachment } = await site.attach()
  const { ips } = await attachment.add()
  expect([(await linkOf(pod, "eth0")).mtu, await defaultRoute(pod)]).toEqual([1500, "10.1.2.1"])
  await first[Symbol.asyncDispose]()
  await using _second = await startDhcpd(site.server, site.path("dhcpd"), {
    more: ["option routers 10.1.2.254;", "option interface-mtu 1300;"],
  })
  await waitFor(async () => (await defaultRoute(pod)) === "10.1.2.254", "the other router")
  expect((await linkOf(pod, "eth0")).mtu).toBe(1300)
  const routes = await pod.json<object[]>("ip", ["-4", "-j", "route", "show", "default"])
  expect(routes).toHaveLength(1)
  expect(await addressesOf(pod, "eth0")).toEqual(ips.map(({ address }) => address))
})

/** Starts dnsmasq with the addresses from `first` to `last`. dnsmasq refuses requests for other addresses. */
function startOther(site: Site, first: string, last: string): Promise<Server> {
  const range = `--dhcp-range=${first},${last},255.255.255.0,2m`
  return startDnsmasq(site.server, site.directory.path, [range, "--dhcp-option=option:router,10.1.2.1"])
}

test("a renewal that the server refuses takes the address away, and brings another that it gives", async () => {
  await using site = await Site.create("bridge", ["-timeout", "3s"])
  const first = await startDhcpd(site.server, site.path("dhcpd"))
  await using sniffer = await Sniffer.start(site.server, "eth0")
  const { pod, attachment } = await site.attach()
  await attachment.add()
  await first[Symbol.asyncDispose]()
  await using _second = await startOther(site, "10.1.2.100", "10.1.2.110")
  await sniffer.waitFor("NACK")
  // The interface was down. Packets that are sent before it and the bridge's port forward frames are lost.
  const afterRefusal = () => {
    const packets = sniffer.packets()
    const refused = packets.findIndex(({ type }) => type === "NACK")
    return packets.slice(refused).find(({ type }) => type === "Discover")
  }
  const discover = await waitFor(afterRefusal, "a DISCOVER after the refusal")
  expect(discover.text).not.toMatch(/secs \d/) // the first packet of its transaction
  await waitFor(async () => {
    const [address, ...more] = await addressesOf(pod, "eth0")
    return more.length === 0 && /^10\.1\.2\.1\d\d\/24$/.test(address ?? "")
  }, "an address of the other range, and no other")
  await waitFor(() => pingOnce(pod, "10.1.2.1"), "the new address to be used")
  expect(await defaultRoute(pod)).toBe("10.1.2.1")
})

test("another server takes over at T2: the request is broadcast then, from the address that is kept", async () => {
  await using site = await Site.create("bridge")
  const first = await startDhcpd(site.server, site.path("dhcpd"), { leaseSeconds: 6 })
  await using sniffer = await Sniffer.start(site.server, "eth0")
  const { pod, attachment } = await site.attach()
  const { ips } = await attachment.add()
  const address = ips[0]?.address ?? ""
  const ip = address.replace("/24", "")
  await first[Symbol.asyncDispose]()
  await site.server.exec("ip", ["address", "del", "10.1.2.1/24", "dev", "eth0"])
  await site.server.exec("ip", ["address", "add", "10.1.2.2/24", "dev", "eth0"])
  await using _second = await startOther(site, "10.1.2.50", "10.1.2.60")
  expect(await sniffer.waitFor("ACK", ({ server }) => server === "10.1.2.2")).toMatchObject({ clientIp: ip })
  const [, ...requests] = sniffer.packets("Request")
  const renewals = requests.filter(({ destination }) => destination === "10.1.2.1")
  const rebinding = requests.slice(renewals.length)
  expect([renewals.length > 0, rebinding.length > 0]).toEqual([true, true])
  for (const packet of rebinding) expect(packet).toMatchObject({ ...everyone, source: ip, clientIp: ip })
  const types = sniffer.packets().map(({ type }) => type)
  expect(types.slice(types.indexOf("Request"))).not.toContain("Discover")
  expect(await addressesOf(pod, "eth0")).toEqual([address])
  expect((await linkOf(pod, "eth0")).flags).toContain("UP")
})

test("with the server gone the lease ends, and the interface is down; with the server back it is up again", async () => {
  await using site = await Site.create("bridge", ["-timeout", "250ms", "-resendmax", "1s"])
  const first = await startDhcpd(site.server, site.path("dhcpd"))
  await using sniffer = await Sniffer.start(site.server, "eth0")
  const { pod, attachment } = await site.attach()
  const result = await attachment.add()
  await first[Symbol.asyncDispose]()
  await waitFor(async () => (await addressesOf(pod, "eth0")).length === 0, "the address to be taken away")
  await waitFor(async () => !(await linkOf(pod, "eth0")).flags.includes("UP"), "the interface to be down")
  expect((await attachment.check(result)).exitCode).toBe(1)
  const discovers = sniffer.packets("Discover").length
  await waitFor(() => sniffer.packets("Discover").length > discovers, "the client to ask for another")
  await using _second = await startDhcpd(site.server, site.path("dhcpd"))
  await waitFor(async () => (await addressesOf(pod, "eth0")).length === 1, "an address")
  expect((await linkOf(pod, "eth0")).flags).toContain("UP")
  await waitFor(() => pingOnce(pod, "10.1.2.1"), "the server to answer")
  expect(await defaultRoute(pod)).toBe("10.1.2.1")
})

test("a daemon that finds a lease overdue asks every server whether it still holds", async () => {
  await using site = await Site.create("bridge")
  await using server = await startDhcpd(site.server, site.path("dhcpd"), { leaseSeconds: 8 })
  const { pod, attachment } = await site.attach()
  const { ips } = await attachment.add()
  const ip = ips[0]?.address.replace("/24", "") ?? ""
  const renewAt = Date.now() + 4000
  await site.daemon.end("SIGKILL")
  await waitFor(() => Date.now() > renewAt, "the lease to be overdue")
  await using sniffer = await Sniffer.start(site.server, "eth0")
  site.daemon = await startDaemon(site.host, ["-timeout", "1s"])
  const request = await sniffer.waitFor("Request")
  expect(request).toMatchObject({ ...everyone, requestedIp: ip })
  expect([request.clientIp, request.server]).toEqual([undefined, undefined]) // INIT-REBOOT; RFC 2131, table 4
  await waitFor(() => server.running.count(/DHCPACK on/) >= 2, "the server to say that it does")
  expect(await addressesOf(pod, "eth0")).toEqual([`${ip}/24`])
})

test("an address that another machine uses is declined, and another one taken", async () => {
  await using site = await Site.create("bridge", ["-timeout", "250ms"])
  await using server = await startDhcpd(site.server, site.path("dhcpd"), { leaseSeconds: 60 })
  await using sniffer = await Sniffer.start(site.server, "eth0")
  const { attachment } = await site.attach({ probe: true })
  const first = (await attachment.add()).ips[0]?.address ?? ""
  const ip = first.replace("/24", "")
  const probe = ({ text }: { text: string }) => text.includes(`who-has ${ip} tell 0.0.0.0`)
  expect(sniffer.packets("ARP").filter(probe)).toHaveLength(3)
  await attachment.del() // the server keeps the address for this client

  const other = await site.host.addContainer("other")
  await site.host.exec("ip", ["link", "add", "other0", "type", "veth", "peer", "name", "eth0", "netns", other.name])
  await site.host.exec("ip", ["link", "set", "other0", "master", "br-lab", "up"])
  await other.exec("ip", ["address", "add", first, "dev", "eth0"])
  await other.exec("ip", ["link", "set", "eth0", "up"])
  await waitFor(() => pingOnce(other, "10.1.2.1"), "the other machine to be there")
  const second = (await attachment.add()).ips[0]?.address ?? ""
  expect(second).toMatch(/^10\.1\.2\.\d+\/24$/)
  expect(second).not.toBe(first)
  expect(await sniffer.waitFor("Decline")).toMatchObject({ ...everyone, requestedIp: ip, server: "10.1.2.1" })
  await server.running.waitFor(new RegExp(`Abandoning IP address ${ip.replaceAll(".", "\\.")}: declined`))
})
