import { expect, test } from "bun:test"
import { Attachment, bridgeNetwork, HostNamespace, ping, pingOnce, succeed } from "../lab/mod.ts"

const former = { "10.22.0.50": 16, "fd00:22::50": 64 } as const

const staticIpam = (addresses: Readonly<Record<string, number>>) => ({
  ipam: {
    type: "static",
    addresses: Object.entries(addresses).map(([ip, prefix]) => ({ address: `${ip}/${prefix}` })),
  },
})

test.each([
  ["", {}],
  [" with hairpinMode", { hairpinMode: true }],
  [" with hairpinMode at a gateway", { hairpinMode: true, isGateway: true }],
  [" with enabledad and hairpinMode", { enabledad: true, hairpinMode: true }],
])("a container's former address answers from the next one at once%s", async (_, keys) => {
  await using host = await HostNamespace.create()
  const [neighbour, first, next] = [await host.addContainer(), await host.addContainer(), await host.addContainer()]
  const network = (addresses: Readonly<Record<string, number>>) => bridgeNetwork({ ...keys, ...staticIpam(addresses) })
  await new Attachment(host, neighbour, network({ "10.22.0.5": 16, "fd00:22::5": 64 })).add()
  const left = new Attachment(host, first, network(former))
  await left.add()
  for (const ip of Object.keys(former)) expect(`${ip} ${await ping(neighbour, ip)}`).toBe(`${ip} true`)
  await succeed(left.run("DEL"))
  const mac = (await new Attachment(host, next, network(former)).add()).interfaces[2]?.mac
  // Known at the end of ADD. Without the announcement, the other machine would use the former MAC address for half a
  // minute.
  for (const ip of Object.keys(former)) {
    const [entry] = await neighbour.json<{ lladdr: string }[]>("ip", ["-j", "neigh", "show", ip])
    expect(entry?.lladdr).toBe(mac as string)
    expect(`${ip} ${await pingOnce(neighbour, ip)}`).toBe(`${ip} true`)
  }
})
