import { expect, test } from "bun:test"
import {
  Attachment,
  askEcho,
  connect,
  EchoPeer,
  expectNoEcho,
  HostNamespace,
  type Namespace,
  newest,
  type PluginResult,
  readSysctl,
  succeed,
} from "../lab/mod.ts"

/** The addresses of the host and of another machine, which has no route to the containers. */
const addresses = { host: "203.0.113.1", outside: "203.0.113.9" }

/** The interface plugins of two networks, which together use every plugin. */
const makers = {
  "bridge with addresses of host-local": {
    type: "bridge",
    bridge: "br-lab",
    isDefaultGateway: true,
    ipMasq: true,
    ipam: { type: "host-local", ranges: [[{ subnet: "10.22.0.0/16" }]] },
  },
  "ptp with a static address": {
    type: "ptp",
    ipMasq: true,
    ipam: {
      type: "static",
      addresses: [{ address: "10.22.0.7/24", gateway: "10.22.0.1" }],
      routes: [{ dst: "0.0.0.0/0" }],
    },
  },
} as const

for (const [name, maker] of Object.entries(makers)) {
  test(`a pod's whole life: ${name}, tuning and portmap`, async () => {
    await using host = await HostNamespace.create()
    const outside = await host.addContainer("outside")
    await connect(
      { namespace: host, link: "up0", addresses: [`${addresses.host}/24`] },
      { namespace: outside, link: "eth0", addresses: [`${addresses.outside}/24`] },
    )
    const pod = await host.addContainer()
    const shared = { cniVersion: newest, name: "lab" }
    const portMappings = [{ hostPort: 8080, containerPort: 80, protocol: "tcp" }]
    const chain = [
      { ...shared, ...maker },
      { ...shared, type: "tuning", sysctl: { "net.ipv4.conf.IFNAME.arp_filter": "1" } },
      { ...shared, type: "portmap", runtimeConfig: { portMappings } },
    ].map((config) => new Attachment(host, pod, config))

    for (const plugin of chain) await succeed(plugin.run("STATUS"))
    let prevResult: PluginResult | undefined
    for (const plugin of chain) prevResult = await plugin.add(prevResult ? { prevResult } : {})
    for (const plugin of chain) await succeed(plugin.check(prevResult ?? {}))

    await using peer = await EchoPeer.start(outside)
    await using server = await EchoPeer.start(pod, { port: 80 })
    expect((await ask(pod, addresses.outside, peer.port)).from.address).toBe(addresses.host)
    expect((await ask(outside, addresses.host, 8080)).to).toEqual({ address: ipOf(prevResult), port: server.port })
    expect(await readSysctl(pod, "net/ipv4/conf/eth0/arp_filter")).toBe("1")

    for (const _ of ["once", "twice"]) for (const plugin of chain.toReversed()) await plugin.del({ prevResult })
    for (const plugin of chain) await succeed(plugin.run("GC", { "cni.dev/valid-attachments": [] }))
    expect(await linksOf(pod)).toEqual(["lo"])
    expect((await linksOf(host)).filter((link) => link.startsWith("veth"))).toEqual([])
    await expectNoEcho(outside, { transport: "tcp", address: addresses.host, port: 8080 })
  })
}

test("loopback: lo comes up and goes down", async () => {
  await using host = await HostNamespace.create()
  const pod = await host.addContainer()
  await pod.exec("ip", ["link", "set", "lo", "down"])
  const loopback = new Attachment(host, pod, { cniVersion: newest, name: "lab", type: "loopback" }, { ifName: "lo" })
  const prevResult = await loopback.add()
  expect(await flagsOf(pod, "lo")).toContain("UP")
  await succeed(loopback.check(prevResult))
  await loopback.del({ prevResult })
  expect(await flagsOf(pod, "lo")).not.toContain("UP")
})

function ask(from: Namespace, address: string, port: number) {
  return askEcho(from, { transport: "tcp", address, port })
}

function ipOf(result: PluginResult | undefined): string {
  return result?.ips[0]?.address.replace(/\/.*/, "") ?? ""
}

async function flagsOf(where: Namespace, link: string): Promise<string[]> {
  const [found] = await where.json<{ flags: string[] }[]>("ip", ["-j", "link", "show", "dev", link])
  return found?.flags ?? []
}

async function linksOf(where: Namespace): Promise<string[]> {
  return (await where.json<{ ifname: string }[]>("ip", ["-j", "link", "show"])).map(({ ifname }) => ifname)
}
