import { expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import {
  Attachment,
  builtPlugins,
  type ContainerNamespace,
  extent,
  newest,
  type PluginResult,
  succeed,
  waitFor,
} from "../lab/mod.ts"
import { startDnsmasq } from "./servers.ts"
import { Site } from "./site.ts"

/** Returns the resident memory of a process in MB. */
function residentMb(pid: number): number {
  return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]) / 1024
}

/** Returns server options for leases of some minutes that the client renews after `seconds`. */
const options = (seconds: number, minutes = 2) => [
  `--dhcp-range=10.1.0.50,10.1.200.250,255.255.0.0,${minutes}m`,
  "--dhcp-lease-max=5000",
  "--dhcp-option=option:router,10.1.2.1",
  `--dhcp-option=option:T2,${seconds + 1}`, // dnsmasq then sets T1 to a second less
]

/** An interface of the container. */
interface Many {
  readonly pod: ContainerNamespace
  readonly attachment: Attachment
}

/** The number of leases. The long form tests that the daemon can hold thousands of leases in 64 MB. */
const leases = extent(500, 3000)

/** The number of ports on each bridge, which can have at most 1023. Further bridges connect the other interfaces. */
const PORTS = 900

/** Returns the lines for `ip -batch` that create the n-th additional bridge. */
function bridgeBeside(n: number): string[] {
  return [
    `link add br${n} up type bridge`,
    `link add to${n} up master br-lab type veth peer name from${n}`,
    `link set from${n} up master br${n}`,
  ]
}

/** Creates a container with many interfaces in the server's network, and an attachment of only dhcp for each. */
async function manyInterfaces(site: Site, count: number): Promise<Many[]> {
  await site.server.exec("ip", ["address", "add", "10.1.0.1/16", "dev", "eth0"])
  await site.server.exec("ip", ["address", "del", "10.1.2.1/24", "dev", "eth0"])
  const pod = await site.host.addContainer()
  // IPv6 messages between all interfaces would overflow this machine's queues.
  await pod.exec("sysctl", ["-qw", "net.ipv6.conf.default.disable_ipv6=1"])
  const lines = Array.from({ length: count }, (_, at) => {
    const n = Math.floor(at / PORTS)
    return [
      ...(n > 0 && at % PORTS === 0 ? bridgeBeside(n) : []),
      `link add p${at} type veth peer name e${at} netns ${pod.name}`,
      `link set p${at} master ${n > 0 ? `br${n}` : "br-lab"} up`,
    ]
  })
  await site.host.exec("ip", ["-batch", "-"], { input: `${lines.flat().join("\n")}\n` })
  const config = { cniVersion: newest, name: "net", type: "dhcp", ipam: { type: "dhcp" } }
  const bin = join(builtPlugins, "dhcp")
  return lines.map((_, at) => ({
    pod,
    attachment: new Attachment(site.host, pod, config, { ifName: `e${at}`, bin }),
  }))
}

/** Calls a function for each element of a list, at most `width` calls at a time. */
async function inGroups<T, R>(list: readonly T[], width: number, act: (one: T) => Promise<R>): Promise<R[]> {
  const results: R[] = []
  const left = list.entries()
  await Promise.all(
    Array.from({ length: width }, async () => {
      for (const [at, one] of left) results[at] = await act(one)
    }),
  )
  return results
}

/**
 * Adds the addresses to the interfaces, as interface plugins do. Each interface answers ARP only for its own address.
 */
async function configure(attachments: readonly Many[], results: readonly PluginResult[]): Promise<void> {
  const pod = attachments[0]?.pod
  if (!pod) return
  await pod.exec("sysctl", ["-qw", "net.ipv4.conf.all.arp_ignore=1"])
  const lines = results.map(({ ips }, at) => `address add ${ips[0]?.address} dev e${at}`)
  await pod.exec("ip", ["-batch", "-"], { input: `${lines.join("\n")}\n` })
}

test(`${leases} leases at once: all different, in one process that stays small, and given back`, async () => {
  await using site = await Site.create("bridge", ["-timeout", "5s"])
  const attachments = await manyInterfaces(site, leases)
  await using server = await startDnsmasq(site.server, site.directory.path, options(3000, 60))
  const results = await inGroups(attachments, 100, ({ attachment }) => attachment.add())
  expect(new Set(results.map(({ ips }) => ips[0]?.address)).size).toBe(leases)
  expect(residentMb(site.daemon.pid)).toBeLessThan(leases > 500 ? 64 : 24)
  await configure(attachments, results)
  await inGroups(attachments, 8, ({ attachment }) => succeed(attachment.run("DEL")))
  await waitFor(async () => (await server.leases()) === "", "all leases to be given back")
}, 1_800_000)

// In a day a container renews a lease of an hour 48 times. Here it does so within seconds.
test("renewals, again and again, cost no memory", async () => {
  await using site = await Site.create("bridge", ["-timeout", "5s"])
  const attachments = await manyInterfaces(site, 40)
  await using server = await startDnsmasq(site.server, site.directory.path, options(2))
  await configure(attachments, await inGroups(attachments, 8, ({ attachment }) => attachment.add()))
  const renewed = (count: number) => waitFor(() => server.running.count(/DHCPACK/) >= count, `${count} renewals`)
  await renewed(160)
  const before = residentMb(site.daemon.pid)
  await renewed(480)
  expect(residentMb(site.daemon.pid)).toBeLessThan(before + 0.5)
})
