import type { Sides } from "../../pkg/attachment/mod.ts"
import {
  Budget,
  findLink,
  findNsid,
  type Link,
  linkData,
  listLinks,
  RouteSocket,
  vlanProtocols,
} from "../../pkg/netlink/mod.ts"
import { listNamespaces, Netns } from "../../pkg/netns/mod.ts"
import { CniError, Code } from "../../pkg/types/mod.ts"
import type { VlanConfig } from "./config.ts"

/** Throws `CniError` if an interface in the master's own namespace uses the VLAN, because then every ADD fails. */
export function requireFreeVlan(route: RouteSocket, parent: Link, config: VlanConfig): void {
  const holder = findHolder(route, parent, config, undefined)
  if (holder) throw vlanTaken(parent, config, describeHolder(holder, "the namespace of the master"))
}

/**
 * Returns the error for a VLAN that is already in use: the kernel allows one interface per VLAN and master in all
 * namespaces together. Returns undefined if the VLAN is free and only the interface's name is in use.
 */
export function findVlanTaken(
  { call, host, inside, sandbox }: Sides,
  parent: Link,
  config: VlanConfig,
): CniError | undefined {
  if (findLink(inside, call.ifName)) return undefined
  const holder = findHolder(config.linkInContainer ? inside : host, parent, config, undefined)
  if (holder) return vlanTaken(parent, config, describeHolder(holder, "the namespace of the master"))
  using home = config.linkInContainer ? undefined : Netns.open("/proc/thread-self/ns/net")
  const budget = new Budget()
  for (const path of listNamespaces()) {
    const holder = budget.share((part) => findHolderIn(path, part, (home ?? sandbox).fd, { parent, config }))
    if (holder) return vlanTaken(parent, config, describeHolder(holder, `"${path}"`))
  }
  return vlanTaken(parent, config, "an interface in a network namespace without a path")
}

/** Returns the interface in a namespace that uses the VLAN; undefined also if the namespace cannot be inspected. */
function findHolderIn(
  path: string,
  budget: Budget,
  home: number,
  { parent, config }: { parent: Link; config: VlanConfig },
): Link | undefined {
  try {
    using namespace = Netns.find(path)
    using route = namespace?.run(() => RouteSocket.open(budget))
    if (!route) return undefined
    const nsid = findNsid(route, home)
    return nsid === undefined ? undefined : findHolder(route, parent, config, nsid)
  } catch {
    return undefined
  }
}

/**
 * Returns the interface that uses the VLAN of a master. `nsid` is the ID of the master's namespace in the socket's
 * namespace; undefined if the two namespaces are the same.
 */
function findHolder(
  route: RouteSocket,
  parent: Link,
  { vlanId, protocol }: VlanConfig,
  nsid: number | undefined,
): Link | undefined {
  const isHolder = (link: Link) => {
    const data = linkData(link, "vlan")
    if (data?.id !== vlanId || data.protocol !== vlanProtocols[protocol]) return false
    return link.attributes.link === parent.index && link.attributes.linkNetnsId === nsid
  }
  const [holder] = listLinks(route, isHolder, { kind: "vlan" })
  return holder
}

function describeHolder({ name, attributes: { alias } }: Link, where: string): string {
  return `"${name}" in ${where}${alias ? `, of ${alias}` : ""}`
}

function vlanTaken(parent: Link, { vlanId }: VlanConfig, holder: string): CniError {
  return new CniError(Code.Internal, `Cannot use VLAN ${vlanId} of "${parent.name}": it is used by ${holder}`, {
    details:
      "a master has only one interface per VLAN, in all namespaces together; for more containers, bridge the VLAN, or use macvlan on it",
  })
}
