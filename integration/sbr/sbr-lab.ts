import { Attachment, type ContainerNamespace, HostNamespace, newest, waitForLocalRoutes } from "../lab/mod.ts"

/** Returns a bridge network of both families, with a default route for each. */
function network(name: "a" | "b", keys: object = {}): Record<string, unknown> {
  const number = name === "a" ? 1 : 2
  const ranges = [[{ subnet: `10.${number}.0.0/16` }], [{ subnet: `fd00:${number}::/64` }]]
  const ipam = { type: "host-local", ranges }
  return { cniVersion: newest, name, type: "bridge", bridge: `br-${name}`, isDefaultGateway: true, ipam, ...keys }
}

/** Attaches a container to networks "a" (eth0) and "b" (net1), with an attachment of sbr after "b". */
export async function twoNetworks(keys: object = {}) {
  const host = await HostNamespace.create()
  const pod = await host.addContainer()
  const first = await new Attachment(host, pod, network("a")).add()
  const bridge = new Attachment(host, pod, network("b"), { ifName: "net1" })
  const prevResult = await bridge.add()
  const ips = [...first.ips, ...prevResult.ips]
  await waitForLocalRoutes(
    pod,
    ips.map(({ address }) => address),
  )
  const config = { cniVersion: newest, name: "b", type: "sbr", prevResult, ...keys }
  return { host, pod, bridge, prevResult, sbr: new Attachment(host, pod, config, { ifName: "net1" }) }
}

export const sources = ["10.2.0.2", "fd00:2::2"]
export const flag = (address: string) => (address.includes(":") ? "-6" : "-4")

/** Returns the rules for single source addresses, as "SOURCE TABLE". */
export async function rulesOf(pod: ContainerNamespace): Promise<string[]> {
  const rules = await Promise.all(
    ["-4", "-6"].map((family) => pod.json<{ src: string; table: string }[]>("ip", [family, "-j", "rule"])),
  )
  return rules.flat().flatMap(({ src, table }) => (src === "all" ? [] : [`${src} ${table}`]))
}

/** Returns the routes of a table, as "DESTINATION LINK". */
export async function routesOf(pod: ContainerNamespace, family: string, table: string): Promise<string[]> {
  const { exitCode, stdout } = await pod.tryExec("ip", [family, "-j", "route", "show", "table", table])
  if (exitCode !== 0) return [] // the table does not exist
  const routes = JSON.parse(stdout) as { dst: string; dev?: string; nexthops?: { dev: string }[] }[]
  return routes.flatMap(({ dst, dev, nexthops }) => (nexthops ?? [{ dev }]).map((hop) => `${dst} ${hop.dev}`)).sort()
}

/** Returns the interface through which the container sends packets with this source address to other networks. */
export async function leavesBy(pod: ContainerNamespace, from: string): Promise<string | undefined> {
  const to = from.includes(":") ? "2001:db8::1" : "198.51.100.1"
  const [route] = await pod.json<{ dev: string }[]>("ip", ["-j", flag(from), "route", "get", to, "from", from])
  return route?.dev
}
