import { expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import {
  Attachment,
  type ContainerNamespace,
  hostFor,
  interfacePlugin,
  interfacePlugins,
  newest,
  pluginRow,
  readSysctl,
  testWhereItRuns,
} from "../lab/mod.ts"

const dns = { nameservers: ["192.0.2.53"], search: ["lab.example"] }
const route = { dst: "198.51.100.0/24", gw: "10.22.0.1", mtu: 1300, advmss: 1200 }
const route6 = { dst: "2001:db8:9::/48", gw: "fd00:22::1", mtu: 1290, advmss: 1200 }
const ipam = {
  type: "static",
  addresses: [
    { address: "10.22.0.5/24", gateway: "10.22.0.1" },
    { address: "fd00:22::5/64", gateway: "fd00:22::1" },
  ],
  routes: [route, route6],
  dns,
}

const plugins = [...interfacePlugins(), "host-device"]

/** Returns the network of the shared cases with these addresses. */
function networkOf(plugin: string, more: object = {}): Record<string, unknown> {
  if (plugin === "host-device") {
    const keys = pluginRow(plugin).keys({ network: "lab", port: 8080 })
    return { cniVersion: newest, name: "lab", type: plugin, ...keys, ipam, ...more }
  }
  return interfacePlugin(plugin).network({ ipam, ...more })
}

/** Returns the settings `accept_ra` and `autoconf` of the container's interface. */
function advertisementSettings(pod: ContainerNamespace): Promise<string[]> {
  return Promise.all(["accept_ra", "autoconf"].map((key) => readSysctl(pod, `net/ipv6/conf/eth0/${key}`)))
}

type Address = { local: string; nodad?: boolean; tentative?: boolean }
type Route = { dst: string; metrics?: object[] }

for (const plugin of plugins) {
  const title =
    "the interface's settings, the MTU of routes in the kernel, and the IPAM plugin's DNS are as its page says"
  testWhereItRuns(plugin, `${plugin}: ${title}`, async () => {
    await using host = await hostFor(plugin)
    const pod = await host.addContainer()
    const result = await new Attachment(host, pod, networkOf(plugin)).add()
    expect(result.dns).toEqual(dns)
    const settings = ["ipv4/conf/eth0/arp_notify", "ipv6/conf/eth0/ndisc_notify", "ipv6/conf/eth0/accept_dad"]
    expect(await Promise.all(settings.map((name) => readSysctl(pod, `net/${name}`)))).toEqual(["1", "1", "0"])
    expect(await advertisementSettings(pod)).toEqual(["0", "0"])
    const [link] = await pod.json<{ addr_info: Address[] }[]>("ip", ["-6", "-j", "addr", "show", "eth0"])
    const address = link?.addr_info.find(({ local }) => local === "fd00:22::5")
    expect(address?.nodad).toBe(true)
    expect(address?.tentative).toBeUndefined()
    for (const [family, { dst, mtu, advmss }] of [
      ["-4", route],
      ["-6", route6],
    ] as const) {
      const [found] = await pod.json<Route[]>("ip", [family, "-j", "route", "show", dst])
      expect(found?.metrics).toEqual([{ mtu, advmss }])
    }
  })
}

const ipv4 = { type: "static", addresses: [{ address: "10.22.0.5/24", gateway: "10.22.0.1" }] }

const heeding: readonly (readonly [when: string, keys: object, expected: (plugin: string) => string])[] = [
  [
    "with IPv4 addresses alone, unless the host is the router",
    { ipam: ipv4 },
    (plugin) => (plugin === "ptp" ? "0" : "1"),
  ],
  ["as acceptRa says, false with IPv4 addresses", { ipam: ipv4, acceptRa: false }, () => "0"],
  ["as acceptRa says, true with IPv6 addresses", { acceptRa: true }, () => "1"],
]

for (const [when, keys, expected] of heeding) {
  for (const plugin of plugins) {
    testWhereItRuns(plugin, `${plugin}: the interface heeds router advertisements ${when} [S171]`, async () => {
      await using host = await hostFor(plugin)
      const pod = await host.addContainer()
      await new Attachment(host, pod, networkOf(plugin, keys)).add()
      expect(await advertisementSettings(pod)).toEqual([expected(plugin), expected(plugin)])
    })
  }
}

test.each([
  "`mtu` and `advmss` of routes are not passed to the kernel",
  "an IPv6 address with a gateway waits",
  "a new IPv6 address, and with some plugins an IPv4 one, is not announced to neighbors",
  "most plugins drop the IPAM plugin's DNS",
])("docs/differences.md says that with the reference plugins %s", (start) => {
  const page = readFileSync(`${import.meta.dir}/../../docs/differences.md`, "utf8")
  expect(page.split("\n").filter((line) => line.startsWith(`| ${start}`))).toHaveLength(1)
})
