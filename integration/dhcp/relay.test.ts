import { expect, test } from "bun:test"
import { addressesOf, type ContainerNamespace, connect, linkOf, ping, waitFor } from "../lab/mod.ts"
import { Sniffer } from "./packets.ts"
import { type KeaSubnet, type Server, startAdvertiser, startKea, startRelay } from "./servers.ts"
import { Site } from "./site.ts"

const everyone = { to: "ff:ff:ff:ff:ff:ff", destination: "255.255.255.255" }
const routers = { "option-data": [{ name: "routers", data: "10.1.2.1" }] }
const farServer = "10.9.0.2"

/** A DHCP server in another network. The router of the containers' network relays their packets to this server. */
class Relayed implements AsyncDisposable {
  readonly site: Site
  readonly far: ContainerNamespace
  readonly #stack: AsyncDisposableStack

  private constructor(site: Site, far: ContainerNamespace, stack: AsyncDisposableStack) {
    this.site = site
    this.far = far
    this.#stack = stack
  }

  static async create(): Promise<Relayed> {
    await using stack = new AsyncDisposableStack()
    const site = stack.use(await Site.create("bridge", ["-timeout", "250ms", "-resendmax", "1s"]))
    const far = await site.host.addContainer("far")
    await far.exec("ip", ["link", "set", "lo", "up"])
    await connect(
      { namespace: site.server, link: "eth1", addresses: ["10.9.0.1/24", "2001:db8:9::1/64"] },
      { namespace: far, link: "eth0", addresses: [`${farServer}/24`, "2001:db8:9::2/64"] },
    )
    await far.exec("ip", ["route", "add", "10.1.2.0/24", "via", "10.9.0.1"])
    await far.exec("ip", ["-6", "route", "add", "2001:db8:2::/64", "via", "2001:db8:9::1"])
    for (const key of ["ipv4.ip_forward", "ipv6.conf.all.forwarding"]) await setSwitch(site.server, key, 1)
    stack.use(await startRelay(site.server, "10.1.2.1", farServer))
    return new Relayed(site, far, stack.move())
  }

  startKea(family: 4 | 6, subnet: KeaSubnet): Promise<Server> {
    return startKea(this.far, this.site.path("kea"), family, subnet)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stack[Symbol.asyncDispose]()
  }
}

async function setSwitch(where: ContainerNamespace, key: string, value: 0 | 1): Promise<void> {
  await where.exec("sysctl", ["-qw", `net.${key}=${value}`])
}

/** Returns the types of the messages since a client accepted an offer. */
function typesAfterOffer(sniffer: Sniffer): string[] {
  const types = sniffer.packets().map(({ type }) => type)
  return types.slice(types.indexOf("Request"))
}

test("Kea leases an address, renews it, and gets it back", async () => {
  await using site = await Site.create("macvlan")
  await using server = await startKea(site.server, site.path("kea"), 4, { leaseSeconds: 4, keys: routers })
  await using sniffer = await Sniffer.start(site.server, "eth0")
  const { pod, attachment } = await site.attach()
  const result = await attachment.add()
  const address = result.ips[0]?.address ?? ""
  expect(result).toMatchObject({
    ips: [{ address, gateway: "10.1.2.1" }],
    routes: [{ dst: "0.0.0.0/0", gw: "10.1.2.1" }],
  })
  expect(address).toMatch(/^10\.1\.2\.(5\d|60)\/24$/)
  const ip = address.replace("/24", "")
  await waitFor(() => sniffer.packets("Request").length >= 3, "two renewals")
  for (const renewal of sniffer.packets("Request").slice(1)) {
    expect(renewal).toMatchObject({ source: ip, destination: "10.1.2.1", clientIp: ip })
  }
  await waitFor(() => server.running.count(/DHCP4_LEASE_ALLOC/) >= 3, "Kea to answer each of them")
  expect(typesAfterOffer(sniffer)).not.toContain("Discover")
  expect(await addressesOf(pod, "eth0")).toEqual([address])
  expect(await attachment.check(result)).toMatchObject({ exitCode: 0 })
  await attachment.del()
  await server.running.waitFor(new RegExp(`DHCP4_RELEASE .*${ip}|DHCP4_RELEASE_EXPIRED.*${ip}`))
})

test("behind a relay, a lease is renewed by unicast by way of the router, and given back so", async () => {
  await using relayed = await Relayed.create()
  await using server = await relayed.startKea(4, { leaseSeconds: 4, keys: routers })
  const { site, far } = relayed
  await using near = await Sniffer.start(site.server, "eth0")
  await using there = await Sniffer.start(far, "eth0")
  const { pod, attachment } = await site.attach()
  const { ips } = await attachment.add()
  const ip = ips[0]?.address.replace("/24", "") ?? ""
  expect(await ping(pod, farServer)).toBe(true)
  await waitFor(() => near.packets("Request").length >= 3, "two renewals")
  const [selecting, ...renewals] = near.packets("Request")
  expect(selecting).toMatchObject({ ...everyone, server: farServer })
  const { address: routerMac } = await linkOf(site.server, "eth0")
  for (const renewal of renewals) {
    expect(renewal).toMatchObject({ to: routerMac, source: ip, destination: farServer, clientIp: ip })
  }
  await there.waitFor("Request", ({ source }) => source === ip) // sent directly to the server, not through the relay
  await waitFor(() => server.running.count(/DHCP4_LEASE_ALLOC/) >= 3, "Kea to answer each of them")
  expect(typesAfterOffer(near)).not.toContain("Discover")
  expect(await addressesOf(pod, "eth0")).toContain(`${ip}/24`)
  await attachment.del()
  expect(await there.waitFor("Release")).toMatchObject({ source: ip, destination: farServer, clientIp: ip })
  await server.running.waitFor(/DHCP4_RELEASE /)
})

test("behind a relay that does not route, a lease is kept by rebinding", async () => {
  await using relayed = await Relayed.create()
  await using _server = await relayed.startKea(4, { leaseSeconds: 8, keys: routers })
  const { site } = relayed
  await using near = await Sniffer.start(site.server, "eth0")
  const { pod, attachment } = await site.attach()
  const { ips } = await attachment.add()
  const ip = ips[0]?.address.replace("/24", "") ?? ""
  await setSwitch(site.server, "ipv4.ip_forward", 0)
  const rebinding = await near.waitFor(
    "Request",
    ({ clientIp, destination }) => clientIp === ip && destination === everyone.destination,
  )
  expect(rebinding).toMatchObject({ ...everyone, source: ip })
  expect(near.packets("Request").some(({ destination }) => destination === farServer)).toBe(true)
  await near.waitFor("ACK", ({ clientIp }) => clientIp === ip)
  expect(typesAfterOffer(near)).not.toContain("Discover")
  expect(await addressesOf(pod, "eth0")).toContain(`${ip}/24`)
})

test("a lease of IPv6 comes by a relay, is renewed by it, and given back", async () => {
  await using relayed = await Relayed.create()
  await using _relay = await startRelay(relayed.site.server, "2001:db8:2::1", "2001:db8:9::2")
  await using _router = await startAdvertiser(relayed.site.server)
  await using _four = await relayed.startKea(4, { leaseSeconds: 60, keys: routers })
  const keys = { relay: { "ip-addresses": ["2001:db8:2::1"] } }
  await using six = await relayed.startKea(6, { leaseSeconds: 8, address: "2001:db8:9::2", keys })
  const { pod, attachment } = await relayed.site.attach({ dhcpv6: true })
  const { ips } = await attachment.add()
  const address = ips[1]?.address ?? ""
  expect(address).toMatch(/^2001:db8:2::(5.|60)\//) // the prefix length depends on whether the router has advertised
  await waitFor(() => ping(pod, "2001:db8:9::2"), "the far server to answer by IPv6")
  await waitFor(() => six.running.count(/DHCP6_LEASE_RENEW|DHCP6_.*RENEW/) >= 1, "Kea to renew it")
  expect(await addressesOf(pod, "eth0")).toContain(address)
  await attachment.del()
  await six.running.waitFor(/DHCP6_RELEASE_NA /)
})
