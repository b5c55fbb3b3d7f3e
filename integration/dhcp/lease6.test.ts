import { expect, test } from "bun:test"
import { addressesOf, type Namespace, pingOnce, waitFor } from "../lab/mod.ts"
import { Sniffer } from "./packets.ts"
import { startDhcpd6, startDnsmasq } from "./servers.ts"
import { Site } from "./site.ts"

async function defaultRoute6(pod: Namespace): Promise<string | undefined> {
  const [route] = await pod.json<{ gateway: string }[]>("ip", ["-6", "-j", "route", "show", "default"])
  return route?.gateway
}

async function linkLocalOf(where: Namespace): Promise<string> {
  type Listed = { addr_info?: { local?: string }[] }
  const links = await where.json<Listed[]>("ip", ["-6", "-j", "address", "show", "dev", "eth0", "scope", "link"])
  return links.flatMap(({ addr_info = [] }) => addr_info).find(({ local }) => local)?.local ?? ""
}

const range4 = ["--dhcp-range=10.1.2.50,10.1.2.60,255.255.255.0,2m", "--dhcp-option=option:router,10.1.2.1"]
const advertisements = ["--enable-ra", "--ra-param=eth0,4,60"]

test.each(["bridge", "macvlan"] as const)(
  "one ADD over %s brings both families, the gateway of IPv6 by the router's advertisement",
  async (linkKind) => {
    await using site = await Site.create(linkKind)
    const range6 = "--dhcp-range=2001:db8:2::50,2001:db8:2::60,64,2m"
    const names = [
      "--dhcp-option=option6:dns-server,[2001:db8:2::53]",
      "--dhcp-option=option6:domain-search,six.example",
    ]
    const options = [...range4, range6, ...names, ...advertisements]
    await using server = await startDnsmasq(site.server, site.directory.path, options)
    await using sniffer = await Sniffer.start(site.server, "eth0")
    const { pod, attachment } = await site.attach({ dhcpv6: true })
    const result = await attachment.add()
    const gateway = await linkLocalOf(site.server)
    const addresses = result.ips.map(({ address }) => address)
    expect(result.ips).toMatchObject([
      { address: expect.stringMatching(/^10\.1\.2\.\d+\/24$/), gateway: "10.1.2.1" },
      { address: expect.stringMatching(/^2001:db8:2::(5.|60)\/64$/), gateway },
    ])
    expect(result.routes).toContainEqual({ dst: "::/0", gw: gateway })
    expect(result.dns).toMatchObject({
      nameservers: expect.arrayContaining(["2001:db8:2::53"]),
      search: ["six.example"],
    })
    expect((await addressesOf(pod, "eth0")).sort()).toEqual(addresses.toSorted())
    expect(await defaultRoute6(pod)).toBe(gateway)
    await waitFor(() => pingOnce(pod, "2001:db8:2::1"), "the server to answer by IPv6")
    for (const type of ["solicit", "request"]) {
      const packet = await sniffer.waitFor(type)
      expect(packet).toMatchObject({ to: "33:33:00:01:00:02", destination: "ff02::1:2" })
      expect(packet.text).toContain("[udp sum ok]")
      expect(packet.text).toMatch(/client-ID type 4.*IA_NA IAID:1/)
    }
    const ip = addresses[1]?.replace("/64", "") ?? ""
    expect(await server.leases()).toContain(` ${ip} `)
    await attachment.del()
    expect((await sniffer.waitFor("release")).text).toContain(`IA_ADDR ${ip} `)
    await waitFor(async () => !(await server.leases()).includes(` ${ip} `), "dnsmasq to forget the lease")
    await server.running.waitFor(/DHCPRELEASE\(eth0\) 10\.1\.2\./)
  },
)

test("a lease of IPv6 is renewed, ends with its server, and another one comes", async () => {
  await using site = await Site.create("bridge", ["-timeout", "250ms", "-resendmax", "1s"])
  await using _four = await startDnsmasq(site.server, site.directory.path, [
    ...range4,
    "--dhcp-range=2001:db8:2::,ra-only",
    ...advertisements,
  ])
  const first = await startDhcpd6(site.server, site.path("dhcpd"), 5)
  await using sniffer = await Sniffer.start(site.server, "eth0")
  const { pod, attachment } = await site.attach({ dhcpv6: true })
  const { ips } = await attachment.add()
  const address = ips[1]?.address ?? ""
  const addresses6 = async () => (await addressesOf(pod, "eth0")).filter((each) => each.includes(":"))
  expect(await addresses6()).toEqual([address])
  expect((await sniffer.waitFor("renew")).text).toContain(`IA_ADDR ${address.replace("/64", "")} `)
  expect(await addresses6()).toEqual([address])
  await first[Symbol.asyncDispose]()
  await sniffer.waitFor("rebind")
  await waitFor(async () => (await addresses6()).length === 0, "the address to be taken away")
  await using _second = await startDhcpd6(site.server, site.path("dhcpd"), 60)
  await waitFor(async () => (await addresses6()).length === 1, "an address")
  expect(await defaultRoute6(pod)).toBe(await linkLocalOf(site.server))
})
