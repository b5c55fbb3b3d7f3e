import { invalidConfig } from "../../pkg/config/mod.ts"
import { addressesOf } from "../../pkg/ip/mod.ts"
import { findLink, type Ifindex, RouteSocket } from "../../pkg/netlink/mod.ts"
import { CniError, Code, type Owner, type Result, validateInterfaceName } from "../../pkg/types/mod.ts"
import type { FirewallConfig, Policy } from "./config.ts"

export interface FirewallSpec {
  owner: Owner
  /** The container's addresses, without duplicates. */
  addresses: readonly Uint8Array[]
  policy: Policy
  /** The host's interfaces to the container; undefined if no previous result names one. */
  link: HostLink | undefined
  adminChain: string
}

/** The rules of an attachment, and the firewalld zone of its addresses if firewalld runs. */
export interface ZonedSpec extends FirewallSpec {
  zone: string | undefined
}

/** Hints from `prevResult`, which may be missing or wrong. DEL searches there first. */
export interface DelHints {
  addresses: readonly Uint8Array[]
  bridge: string | undefined
}

/** The host's interfaces through which packets reach a container. */
export interface HostLink {
  /** The interface of the host's route: the bridge, the bridge's VLAN interface, or the host's end of a veth pair. */
  bridge: string
  /** The port of the bridge; undefined without a bridge, or if no result names the port. */
  port: string | undefined
}

/** Data that is stored with each address of an attachment, so that DEL need not list all addresses. */
export interface Note {
  count: number
  /** The interfaces to which the attachment's policy applied. The policy may have changed since. */
  link: HostLink | undefined
  /** The firewalld zone that has the addresses as sources. */
  zone: string | undefined
}

/** Formats a note: "2", "2 br0/veth1", "2 br0/ trusted", "2 - trusted". Interface names contain no "/" or space. */
export function printNote({ count, link, zone }: Note): string {
  const place = link ? `${link.bridge}/${link.port ?? ""}` : "-"
  return [count, ...(link || zone ? [place] : []), ...(zone ? [zone] : [])].join(" ")
}

/** Parses a note. The count is 0 if the text is not a note. */
export function readNote(text = ""): Note {
  const [count, place = "-", ...zone] = text.split(" ")
  const [bridge = "", port] = place === "-" ? [] : place.split("/")
  const link = bridge === "" ? undefined : { bridge, port: port || undefined }
  return { count: Number(count) || 0, link, zone: zone.join(" ") || undefined }
}

/**
 * Returns the rules of an attachment, based on the previous result. `findMaster` returns the current bridge of a host
 * interface. Throws code 7 if the policy needs an interface of the host and the result names none.
 */
export function specOf(
  owner: Owner,
  result: Result,
  config: Pick<FirewallConfig, "ingressPolicy" | "iptablesAdminChainName">,
  findMaster: (port: string) => string | undefined = masterOf,
): FirewallSpec {
  const addresses = new Map(addressesOf(result).map(({ ip }) => [String(ip), ip]))
  const link = hostLinkOf(result, findMaster)
  const { ingressPolicy, iptablesAdminChainName } = config
  if (ingressPolicy === "open" || addresses.size === 0 || link) {
    const rest = { policy: ingressPolicy, adminChain: iptablesAdminChainName }
    return { owner, addresses: [...addresses.values()], link, ...rest }
  }
  const reason = "prevResult names no interface of the host"
  throw new CniError(Code.InvalidNetworkConfig, `Cannot apply ingressPolicy "${ingressPolicy}": ${reason}`, {
    details: "it needs the bridge, or the host's end of a pair: put firewall after bridge or ptp",
  })
}

/**
 * Returns the host's interfaces in a result. The plugin bridge lists the bridge first, then its port, and after the
 * container's interface the VLAN interface of the host's route. ptp lists only the host's end of the pair. Later
 * plugins append theirs, such as an ifb or, for a chained bridge plugin, the bridge; `findMaster` tells which of them
 * is the bridge.
 */
export function hostLinkOf(
  { interfaces }: Result,
  findMaster: (port: string) => string | undefined = () => undefined,
): HostLink | undefined {
  const names = interfaces.flatMap(({ name, sandbox }) => (sandbox ? [] : [name]))
  const [first, ...others] = names
  if (first === undefined) return undefined
  for (const name of names) requireInterfaceName(name)
  const vlan = others.find((name) => name.startsWith(`${first}.`))
  const inside = interfaces.findIndex(({ sandbox }) => sandbox)
  const earlier = inside < 0 ? interfaces : interfaces.slice(0, inside)
  const port = others.find((name) => name !== vlan && earlier.some((one) => one.name === name))
  if (port === undefined && others.length > 0 && vlan === undefined) {
    const bridge = findMaster(first)
    if (bridge !== undefined && others.includes(bridge)) return { bridge, port: first }
  }
  return { bridge: vlan ?? first, port }
}

/** Returns the name of an interface's current bridge, like "master" of `ip link show`. */
function masterOf(port: string): string | undefined {
  using host = RouteSocket.open()
  const { master } = findLink(host, port)?.attributes ?? {}
  return master ? findLink(host, master as Ifindex)?.name : undefined
}

function requireInterfaceName(name: string): void {
  try {
    validateInterfaceName(name)
  } catch {
    throw invalidConfig("prevResult.interfaces", "names of interfaces", name)
  }
}
