import { FileDescriptor, Open, readTextFile } from "../../pkg/libc/mod.ts"
import { pluginVersions, type Runtime } from "../../pkg/libcni/mod.ts"
import { findLink, type Ifindex, listRoutes, RouteSocket, RT_TABLE_MAIN, RTPROT_RA } from "../../pkg/netlink/mod.ts"
import { findSysctl } from "../../pkg/sysctl/mod.ts"
import { AF_INET6, type Cidr, contains, formatCidr, isCniError, isLinkLocal, parseCidr } from "../../pkg/types/mod.ts"
import { isOn, nodeAt, textAt } from "./document.ts"
import type { Findings } from "./findings.ts"
import type { LintNetwork } from "./network.ts"
import { isPlaceholder } from "./placeholder.ts"
import { isOnHost, type PlacedRange } from "./ranges.ts"

/** A network that the node has a route to. */
export interface NodeRoute {
  readonly network: Cidr
  readonly device: string
}

/** kubeadm's manifest of the API server, whose command line contains the ranges of service addresses. */
const API_SERVER = "/etc/kubernetes/manifests/kube-apiserver.yaml"

/** Returns the service ranges in the API server's manifest. Returns none on nodes without a control plane. */
export function serviceRangesOf(manifest = API_SERVER): string[] {
  try {
    const found = /--service-cluster-ip-range[= ]["']?([0-9a-fA-F.:/,]+)/.exec(readTextFile(manifest))
    return found?.[1]?.split(",") ?? []
  } catch {
    return [] // a worker, or a node without Kubernetes
  }
}

/** Returns the main table's routes, except default routes and those to single addresses, such as to containers. */
export function readNodeRoutes(): NodeRoute[] {
  using route = RouteSocket.open()
  const listed = listRoutes(route, undefined, { table: RT_TABLE_MAIN })
  return listed.flatMap(({ dst, prefix, index, type }) => {
    const isOne = prefix === dst.length * 8
    if (type !== 1 || prefix === 0 || isOne || isLinkLocal(dst) || index === undefined) return []
    return [{ network: { ip: dst, prefix }, device: findLink(route, index)?.name ?? `link ${index}` }]
  })
}

/** Reports ranges that the node reaches through another interface, to which it would send answers to containers. */
export function checkNodeRoutes(
  ranges: readonly PlacedRange[],
  routes: readonly NodeRoute[],
  findings: Findings,
): void {
  for (const { source, node, range, entry } of ranges) {
    const subnet = parseCidr(range.subnet)
    if (subnet === undefined) continue
    const own = ownDevices(entry.type, (key) => textAt(entry.node, [key]))
    if (own === undefined) continue
    const other = routes.find(({ network, device }) => !own.includes(device) && overlap(network, subnet))
    if (other === undefined) continue
    const message = `${range.subnet} overlaps the node's route to ${formatCidr(other.network)} by "${other.device}"`
    findings.add(source, nodeAt(node, ["subnet"]), "node-route", message, {
      hint: "choose a subnet that no other route of the node overlaps",
    })
  }
}

/** Returns the node's interfaces toward a network, or undefined if containers are on a network of the node. */
function ownDevices(type: string, key: (name: string) => string | undefined): string[] | undefined {
  if (type === "bridge") return [key("bridge") ?? "cni0"]
  return type === "ptp" ? [] : undefined
}

/** Reports ranges that contain addresses of services. */
export function checkServiceRanges(
  ranges: readonly PlacedRange[],
  services: readonly string[],
  findings: Findings,
): void {
  for (const { source, node, range } of ranges) {
    const subnet = parseCidr(range.subnet)
    const found = services.find((text) => {
      const service = parseCidr(text)
      return subnet && service && overlap(service, subnet)
    })
    if (found === undefined) continue
    const message = `${range.subnet} overlaps the range of service addresses, ${found}`
    findings.add(source, nodeAt(node, ["subnet"]), "service-overlap", message, {
      hint: "kube-proxy takes these addresses for services",
    })
  }
}

function overlap(a: Cidr, b: Cidr): boolean {
  return contains(a, b.ip) || contains(b, a.ip)
}

/** Reports missing masters, MTUs above the master's, and unreadable files. */
export function checkNode({ entries }: LintNetwork, findings: Findings): void {
  using route = RouteSocket.open()
  for (const { source, node, known, ipam } of entries) {
    const name = textAt(node, ["master"]) ?? ""
    const isHere =
      known?.fields.master !== undefined && name !== "" && !isPlaceholder(name) && !isOn(node, ["linkInContainer"])
    const master = isHere ? findLink(route, name) : undefined
    if (isHere && master === undefined) {
      findings.add(source, nodeAt(node, ["master"]), "no-master", `this node has no interface "${name}"`, {
        hint: '"ip link" lists them',
      })
    }
    const mtu = nodeAt(node, ["mtu"])
    const wanted = mtu?.kind === "scalar" && typeof mtu.value === "number" ? mtu.value : 0
    const most = master?.attributes.mtu ?? wanted
    if (master !== undefined && wanted > most && known?.name !== "ipvlan") {
      findings.add(source, mtu, "master-mtu", `${wanted} exceeds the MTU of "${name}", ${most}`)
    }
    const resolvConf = textAt(node, ["ipam", "resolvConf"]) ?? ""
    if (ipam?.name === "host-local" && resolvConf !== "" && !isReadable(resolvConf)) {
      findings.add(
        source,
        nodeAt(node, ["ipam", "resolvConf"]),
        "no-resolv-conf",
        `"${resolvConf}" cannot be read: no container gets an address`,
      )
    }
  }
}

function isReadable(file: string): boolean {
  try {
    using _ = FileDescriptor.open(file, Open.ReadOnly)
    return true
  } catch {
    return false
  }
}

/**
 * Reports networks whose plugin enables IPv6 forwarding, if a router advertised the node's default route. The kernel
 * deletes that route while `accept_ra` is 1. bridge and ptp of this suite set `accept_ra` to 2 first, but others do
 * not.
 */
export function checkAdvertisedRoutes(ranges: readonly PlacedRange[], findings: Findings): void {
  using route = RouteSocket.open()
  const advertised = listRoutes(route, AF_INET6, { protocol: RTPROT_RA }).filter(({ prefix }) => prefix === 0)
  const indexes = advertised.flatMap(({ index, nextHops }) => nextHops?.map((hop) => hop.index) ?? [index])
  const links = indexes.flatMap((index) => (index === undefined ? [] : (findLink(route, index as Ifindex)?.name ?? [])))
  const exposed = links.find((name) => findSysctl(`net/ipv6/conf/${name}/accept_ra`) === "1")
  if (exposed === undefined) return
  for (const { source, node, range, entry } of ranges) {
    if (range.start.family !== AF_INET6 || !isOnHost(entry)) continue
    const message = `IPv6 forwarding deletes this node's default route by "${exposed}" while its accept_ra is 1`
    findings.add(source, nodeAt(node, ["subnet"]), "advertised-route", message, {
      hint: `"${entry.type}" of this suite sets accept_ra to 2 first; for other suites: sysctl -w net/ipv6/conf/${exposed}/accept_ra=2`,
    })
  }
}

/** Reports plugins that are missing or do not support the network's version. Runs VERSION, which changes nothing. */
export async function checkInstalled(
  runtime: Runtime,
  networks: readonly LintNetwork[],
  findings: Findings,
): Promise<void> {
  const asked = new Map<string, readonly string[] | Error>()
  for (const { entries, version } of networks) {
    for (const { source, node } of entries) {
      const type = textAt(node, ["type"]) ?? ""
      const ipam = textAt(node, ["ipam", "type"]) ?? ""
      for (const [name, path] of [
        [type, ["type"]],
        [ipam, ["ipam", "type"]],
      ] as const) {
        if (name === "" || name.includes("/")) continue
        const answer = asked.get(name) ?? (await askVersions(runtime, name))
        asked.set(name, answer)
        if (answer instanceof Error) findings.add(source, nodeAt(node, path), "plugin-missing", answer.message)
        else if (!answer.includes(version)) {
          findings.add(
            source,
            nodeAt(node, path),
            "plugin-version",
            `the installed "${name}" does not support ${version}`,
            { hint: `it speaks ${answer.join(", ")}` },
          )
        }
      }
    }
  }
}

async function askVersions(runtime: Runtime, name: string): Promise<readonly string[] | Error> {
  try {
    return await pluginVersions(runtime, name)
  } catch (error) {
    if (!isCniError(error)) throw error
    return new Error(error.details ? `${error.message}: ${error.details}` : error.message)
  }
}
