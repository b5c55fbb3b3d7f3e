import { configureLink, mismatch } from "../ip/mod.ts"
import { type ErrnoName, isErrno } from "../libc/mod.ts"
import {
  addAliasedLink,
  assignNsid,
  deleteLink,
  findLink,
  findNsid,
  getLink,
  type Ifindex,
  type Link,
  type LinkData,
  type ListedRoute,
  listRoutes,
  type NetlinkSocket,
  RT_TABLE_MAIN,
} from "../netlink/mod.ts"
import { Netns } from "../netns/mod.ts"
import { CniError, Code, FAMILIES, type Family, type Interface, ownerComment } from "../types/mod.ts"
import { describeInterface } from "./check.ts"
import { type InterfaceKind, noKind } from "./kinds.ts"
import type { Attaching, AttachmentConfig, Checking, Lease, Sides } from "./plugin.ts"

/** The keys that choose the link below the interface (its master). */
export interface MasterConfig {
  /**
   * The master's name. If undefined, the master is the earlier plugin's interface, or else the link of the default
   * route.
   */
  master: string | undefined
  /** Whether the master is in the container's namespace instead of the host's. */
  linkInContainer: boolean
}

/** Returns the configured master, or the default one. Throws code 7 if the master does not exist. */
export function requireMaster(
  { call, host, inside }: Pick<Sides, "call" | "host" | "inside">,
  { master, linkInContainer }: MasterConfig,
): Link {
  return requireParent(linkInContainer ? inside : host, master ?? earlierInterface(call), linkInContainer)
}

/**
 * Returns the name of the only interface in `prevResult`; undefined without `prevResult`. Throws code 7 for none or
 * several.
 */
function earlierInterface({ network: { prevResult } }: Sides["call"]): string | undefined {
  if (!prevResult) return undefined
  const names = prevResult.interfaces.map(({ name }) => name)
  if (names.length === 1) return names[0]
  throw new CniError(
    Code.InvalidNetworkConfig,
    "Cannot choose the master interface: prevResult does not have exactly one interface",
    {
      details: `it has ${names.map((name) => `"${name}"`).join(", ") || "none"}: set "master" to the name of an interface`,
    },
  )
}

/** Checks that a link has the configured master, if one is configured. Throws `CniError`. */
export function checkMaster({ host, inside, link }: Checking, { master, linkInContainer }: MasterConfig): void {
  if (master !== undefined) checkParent(link, requireParent(linkInContainer ? inside : host, master, linkInContainer))
}

/**
 * Returns the master that every ADD uses. Returns `undefined` if each ADD has its own master, in the container or in an
 * earlier plugin's result. Throws code 7 if the master does not exist.
 */
export function findMasterForStatus(
  host: NetlinkSocket,
  { master, linkInContainer, ipam }: MasterConfig & Pick<AttachmentConfig, "ipam">,
): Link | undefined {
  return linkInContainer || (master === undefined && ipam === undefined) ? undefined : requireParent(host, master)
}

/**
 * Returns the link below a container's interface: the link `name`, or by default the link of the default route with the
 * lowest metric, IPv4 before IPv6, and the first of several next hops. `isInside` is true if the socket is in the
 * container's namespace. Throws code 7 if the link does not exist.
 */
export function requireParent(route: NetlinkSocket, name: string | undefined, isInside = false): Link {
  const parent = name === undefined ? findDefault(route) : findLink(route, name)
  if (parent) return parent
  if (name === undefined) {
    throw new CniError(Code.InvalidNetworkConfig, "Cannot choose the master interface: there is no default route", {
      details: 'set "master" to the name of an interface',
    })
  }
  throw new CniError(Code.InvalidNetworkConfig, `Cannot find the master interface "${name}"`, {
    details: isInside ? '"linkInContainer" is set, so only the container was searched' : "",
  })
}

function findDefault(route: NetlinkSocket): Link | undefined {
  for (const family of FAMILIES) {
    const index = findDefaultIndex(route, family)
    const link = index === undefined ? undefined : findLink(route, index)
    if (link) return link
  }
  return undefined
}

function findDefaultIndex(route: NetlinkSocket, family: Family): Ifindex | undefined {
  const routes = listRoutes(route, family, { table: RT_TABLE_MAIN, prefixes: new Set([0]) })
  const [first] = routes.sort((a, b) => (a.priority ?? 0) - (b.priority ?? 0)).flatMap(indexOf)
  return first
}

/** Returns the link of a route as a list, which is empty for a route without a link, such as "unreachable default". */
function indexOf({ index, nextHops }: ListedRoute): Ifindex[] {
  const found = nextHops?.[0]?.index ?? index
  return found === undefined ? [] : [found as Ifindex]
}

/** Throws code 7 if the configured MTU is negative or larger than the parent's. */
export function requireMtuOfParent(mtu: number | undefined, parent: Link): void {
  if (mtu === undefined || (mtu >= 0 && mtu <= parent.mtu)) return
  throw new CniError(Code.InvalidNetworkConfig, `invalid MTU ${mtu}, must be [0, master MTU(${parent.mtu})]`) // upstream's wording
}

/** Checks that a link has this parent. Throws `CniError`. */
export function checkParent(link: Link, parent: Link): void {
  if (link.attributes.link === parent.index) return
  throw mismatch(`master of "${link.name}"`, `"${parent.name}"`, `link number ${link.attributes.link}`)
}

/** An interface to create that has no end on the host. */
export interface InterfaceSpec<K extends InterfaceKind> {
  kind: K
  /** The link below the interface, for kinds that need one. */
  parent?: Link
  /** Whether the parent is in the container's namespace instead of the host's. */
  parentInside?: boolean
  mtu: number | undefined
  mac: string | undefined
  data: LinkData<K>
}

/**
 * Creates the container's interface directly in its namespace and under its final name, like `ip link add link PARENT
 * name IFNAME netns NS type KIND`. The interface is down. The same request sets the owner's alias, so that GC finds the
 * leftovers of a killed ADD. If it throws `CniError`, nothing was created.
 */
export function addInterface<K extends InterfaceKind>(
  { call, owner, inside, undo }: Attaching,
  { kind, parent, parentInside = parent === undefined, mtu, mac, data }: InterfaceSpec<K>,
): Link {
  try {
    const parentNsid = parentInside ? undefined : hostNsid(inside)
    const spec = { kind, name: call.ifName, parent: parent?.index, parentNsid, mtu, mac, data }
    addAliasedLink(inside, spec, ownerComment(owner))
  } catch (cause) {
    // The name was free at the start of this ADD.
    const code = isErrno(cause, "EEXIST") ? Code.TryAgainLater : Code.Internal
    const what = `Cannot create ${kind} "${call.ifName}"${parent ? ` on "${parent.name}"` : ""} in "${call.netns}"`
    const reason = reasons(kind, parent).find(([errno]) => isErrno(cause, errno))?.[1]
    if (reason === undefined || !(cause instanceof Error)) throw new CniError(code, what, { cause })
    throw new CniError(code, what, { cause, details: `${reason}: ${cause.message}` })
  }
  undo.defer(`create ${kind} "${call.ifName}"`, () => deleteLink(inside, getLink(inside, call.ifName)))
  return getLink(inside, call.ifName)
}

/**
 * Adds the addresses and routes, and sets the interface up. Returns it as the result's only interface. Throws
 * `CniError`.
 */
export function configureInterface(
  { call, sandbox, inside }: Attaching,
  link: Link,
  lease: Lease,
  { acceptRa }: Pick<AttachmentConfig, "acceptRa">,
): Interface[] {
  configureLink({ sandbox, inside, link }, lease(), { acceptRa })
  return [{ ...describeInterface(link), sandbox: call.netns }]
}

/** Returns the host's nsid in the container; assigns one, as the kernel does for a link with a parent on the host. */
function hostNsid(inside: NetlinkSocket): number | undefined {
  using host = Netns.own()
  assignNsid(inside, host.fd)
  return findNsid(inside, host.fd)
}

/** Returns the kernel's reasons to refuse a link, by errno, as in macvlan_port_create() and ipvlan_port_create(). */
function reasons(kind: InterfaceKind, parent: Link | undefined): [errno: ErrnoName, reason: string][] {
  const missing: [ErrnoName, string] = ["EOPNOTSUPP", noKind(kind)]
  if (!parent) return [missing]
  if (kind === "vlan") return [["EOPNOTSUPP", `"${parent.name}" cannot have VLANs, or ${noKind(kind)}`]]
  return [
    ["EBUSY", `"${parent.name}" is a port of a bridge or a bond, or has links of another kind on it`],
    ["EINVAL", `"${parent.name}" cannot have a ${kind}, or has one that excludes others`],
    missing,
  ]
}
