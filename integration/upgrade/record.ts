/**
 * Records the objects that this version creates on a node: `bun integration/upgrade/record.ts` writes
 * `integration/upgrade/VERSION.json`. Run it as root after `npm run build`, once for each release before it is tagged.
 * A recording is never replaced.
 */
import { join } from "node:path"
import { version } from "../../package.json"
import { HostNamespace, type Namespace } from "../lab/mod.ts"
import { addDevice, call, networkNames, setUpNetworks } from "./networks.ts"
import { type Containers, placeholders, type RecordedFile, type Recording, snapshotsOf } from "./recording.ts"

interface Link {
  readonly ifindex: number
  readonly ifname: string
  readonly link_index?: number
  readonly link_netnsid?: number
  readonly link?: string
  readonly address: string
  readonly mtu: number
  readonly master?: string
  readonly flags: readonly string[]
  readonly ifalias?: string
  readonly altnames?: readonly string[]
  readonly linkinfo?: { readonly info_kind: string; readonly info_slave_data?: Readonly<Record<string, unknown>> }
}

const linksOf = async (namespace: Namespace) =>
  (await namespace.json<Link[]>("ip", ["-d", "-j", "link"])).filter(({ ifname }) => ifname !== "lo")

type Commands = [namespace: string, command: string][]

/** Returns the commands that create the links: bridges, then the containers' interfaces with their ends on the host. */
async function recordLinks(host: HostNamespace, containers: Containers): Promise<Commands> {
  const ofHost = await linksOf(host)
  const commands: Commands = []
  for (const link of ofHost) {
    if (["uplink", "card"].includes(link.ifname))
      commands.push(["", `ip link set ${link.ifname} address ${link.address}`])
    if (link.linkinfo?.info_kind === "bridge") commands.push(["", `ip link add ${named(link)} type bridge`])
  }
  const ids = await host.json<{ name: string; id?: number }[]>("ip", ["-j", "netns", "list"])
  for (const [name, container] of containers) {
    const netns = `$(basename {{netns:${name}}})`
    commands.push(["", `ip netns set ${netns} ${ids.find((one) => one.name === container.name)?.id}`])
    for (const link of await linksOf(container)) {
      const other = ofHost.find(({ ifindex }) => ifindex === link.link_index)
      if (other === undefined) throw new Error(`Cannot record "${link.ifname}" of ${name}: it has no other end`)
      if (link.linkinfo?.info_kind === "macvlan") {
        const type = "type macvlan mode bridge"
        commands.push(["", `ip link add link ${other.ifname} ${named(link)} netns ${netns} ${type}`])
      } else {
        commands.push(["", `ip link add ${named(other)} type veth peer name ${named(link)} netns ${netns}`])
      }
    }
  }
  commands.push(...(await recordSettings("", host)))
  for (const [name, container] of containers) commands.push(...(await recordSettings(name, container)))
  return commands
}

const named = ({ ifname, ifindex, address }: Link) => `${ifname} index ${ifindex} address ${address}`

/** Returns the commands that set the links' other properties: alias, MTU, bridge, state, addresses, routes, sysctls. */
async function recordSettings(name: string, namespace: Namespace): Promise<Commands> {
  const links = (await linksOf(namespace)).filter(({ ifname }) => !["uplink", "card"].includes(ifname))
  const lines: string[] = []
  for (const { ifname, mtu, master, ifalias, altnames, linkinfo } of links) {
    lines.push(`ip link set ${ifname} mtu ${mtu}${master ? ` master ${master}` : ""}`)
    if (ifalias) lines.push(`ip link set ${ifname} alias '${ifalias}'`)
    for (const other of altnames ?? []) lines.push(`ip link property add dev ${ifname} altname '${other}'`)
    if (linkinfo?.info_slave_data?.hairpin) lines.push(`bridge link set dev ${ifname} hairpin on`)
  }
  lines.push(...(await recordSysctls(namespace, links)))
  for (const { ifname, flags } of links) if (flags.includes("UP")) lines.push(`ip link set ${ifname} up`)
  lines.push(...(await recordAddresses(namespace)), ...(await recordRoutes(namespace)))
  return lines.map((line) => [name, line])
}

async function recordSysctls(namespace: Namespace, links: readonly Link[]): Promise<string[]> {
  const names = ["arp_filter", "arp_notify", "route_localnet", "rp_filter", "accept_ra", "accept_dad", "disable_ipv6"]
  const ofLinks = links.flatMap(({ ifname }) =>
    ["ipv4", "ipv6"].flatMap((family) => names.map((one) => `net/${family}/conf/${ifname}/${one}`)),
  )
  const all = ["net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding", ...ofLinks].map((path) => `/proc/sys/${path}`)
  const { stdout } = await namespace.exec("sh", ["-c", `grep -sH "" ${all.join(" ")} || true`])
  return stdout
    .split("\n")
    .filter(Boolean)
    .map((line) => line.replace(/^([^:]+):(.*)$/, "echo $2 > $1"))
}

async function recordAddresses(namespace: Namespace): Promise<string[]> {
  type Listed = { ifname: string; addr_info: { local: string; prefixlen: number; broadcast?: string; scope: string }[] }
  const listed = await namespace.json<Listed[]>("ip", ["-j", "address"])
  return listed.flatMap(({ ifname, addr_info }) =>
    addr_info
      .filter(({ scope }) => scope === "global")
      .map(({ local, prefixlen, broadcast }) => {
        const more = local.includes(":") ? " nodad" : broadcast ? ` broadcast ${broadcast}` : ""
        return `ip address add ${local}/${prefixlen} dev ${ifname}${more}`
      }),
  )
}

/**
 * Returns the main table's routes. The kernel's own routes are first, because a plugin may have deleted one; routes
 * with a gateway are last.
 */
async function recordRoutes(namespace: Namespace): Promise<string[]> {
  type Route = Readonly<Record<"dst" | "gateway" | "dev" | "scope" | "prefsrc" | "protocol" | "metric", string>>
  const lines: string[] = []
  for (const family of ["-4", "-6"]) {
    const routes = await namespace.json<Route[]>("ip", ["-d", "-j", family, "route", "show", "table", "main"])
    lines.push(`ip ${family} route flush table main${family === "-6" ? " root fd00::/8" : ""}`)
    const ours = routes.filter(({ dst }) => dst !== "fe80::/64").toSorted((a) => (a.gateway ? 1 : -1))
    for (const { dst, gateway, dev, scope, prefsrc, protocol, metric } of ours) {
      const words = [
        ["via", gateway],
        ["dev", dev],
        ["scope", scope],
        ["src", prefsrc],
        ["metric", metric],
      ]
      const given = words.flatMap(([key, value]) => (value === undefined ? [] : [`${key} ${value}`]))
      lines.push(`ip ${family} route add ${dst} ${given.join(" ")} protocol ${protocol}`)
    }
  }
  return lines
}

async function recordNft(host: HostNamespace): Promise<string> {
  const { stdout } = await host.exec("nft", ["list", "tables"])
  const ours = stdout.split("\n").filter((line) => / cni_/.test(line))
  const texts = await Promise.all(
    ours.map(async (line) => (await host.exec("nft", ["list", ...line.split(" ")])).stdout),
  )
  return texts.join("")
}

async function recordFiles(host: HostNamespace): Promise<RecordedFile[]> {
  const find = ["/var/lib/cni", "/run/cni", "-type", "f", "-printf", "%T@ %p\n"]
  const { stdout } = await host.exec("find", find)
  const found = stdout.split("\n").filter((line) => line !== "" && !/ \/run\/cni\/conf\/|\/\.index\/seal$/.test(line))
  const files = found.map(async (line) => {
    const [modified = "", path = ""] = line.split(" ")
    return { path, modified, text: await Bun.file(host.file(path)).text() }
  })
  return (await Promise.all(files)).sort((a, b) => (a.path < b.path ? -1 : 1))
}

/** Attaches a container to each network, and returns the state of the node. */
export async function record(): Promise<Recording> {
  await using host = await HostNamespace.create()
  await setUpNetworks(host)
  await addDevice(host)
  const containers = new Map()
  for (const name of networkNames) containers.set(name, await host.addContainer(name))
  for (const [name, container] of containers) await call(host, "add", name, container)
  const recording: Recording = {
    version,
    snapshots: await snapshotsOf(host, containers),
    commands: await recordLinks(host, containers),
    nft: await recordNft(host),
    iptables: (await host.exec("iptables-save")).stdout,
    ip6tables: (await host.exec("ip6tables-save")).stdout,
    files: await recordFiles(host),
  }
  let text = JSON.stringify(recording)
  for (const [own, placeholder] of await placeholders(host, containers)) text = text.replaceAll(own, placeholder)
  return JSON.parse(text)
}

if (import.meta.main) {
  const text = JSON.stringify(await record(), undefined, 1)
  await Bun.write(join(import.meta.dir, `${version}.json`), `${text}\n`)
}
