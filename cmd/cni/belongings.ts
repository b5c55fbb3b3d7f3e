import { listLeases, release, type Store } from "../../ipam/host-local/main.ts"
import { commentOf, findEverywhere } from "../../pkg/iptables/mod.ts"
import { unlessErrno } from "../../pkg/libc/mod.ts"
import type { AttachmentId } from "../../pkg/libcni/mod.ts"
import { deleteLink, listLinks, RouteSocket } from "../../pkg/netlink/mod.ts"
import { listCommented, PacketFilter, tableFamily } from "../../pkg/nftables/mod.ts"
import { isOwnerOf, messageOf, ownerComment } from "../../pkg/types/mod.ts"
import { containerChains, deleteStaleRules } from "../../tools/node/mod.ts"

export interface Belonging {
  readonly kind: "lease" | "link" | "rule"
  /** The object in words: "10.22.0.7", "veth01ab23cd", "ip cni_masquerade containers". */
  readonly what: string
  /** The owner that the object names: "network/container/interface", or the form of the reference suite. */
  readonly owner: string
}

/**
 * Returns the objects on this host whose owner is an attachment to `network` that is not in `valid`: addresses in
 * `stores`, links, and rules of both packet filters. GC deletes objects of the same owners. Throws `EPERM` without
 * CAP_NET_ADMIN.
 */
export function staleBelongings(
  network: string,
  stores: readonly Store[],
  valid: readonly AttachmentId[],
): Belonging[] {
  const isStale = staleness(network, valid)
  return [...staleLeases(network, stores, valid), ...staleLinks(isStale), ...staleRules(isStale)]
}

/**
 * Deletes the objects of `staleBelongings` that the plugins' GC has left, as plugins of other suites do, and networks
 * with a version before 1.1.0. Deletes rules first and leases last, so that no new container gets an address that rules
 * still name. Continues after errors and returns their messages.
 */
export function deleteBelongings(network: string, stores: readonly Store[], valid: readonly AttachmentId[]): string[] {
  const failures: string[] = []
  const attempt = (step: () => void) => {
    try {
      step()
    } catch (error) {
      failures.push(messageOf(error))
    }
  }
  const isStale = staleness(network, valid)
  const owners = valid.map(({ containerId, ifName }) => ({ network, containerId, ifName }))
  if (staleRules(isStale).length > 0) attempt(() => deleteStaleRules(network, owners))
  using host = RouteSocket.open()
  for (const link of listLinks(host, ({ attributes: { alias } }) => alias !== undefined && isStale(alias)))
    attempt(() => deleteLink(host, link))
  for (const store of stores)
    for (const { holder } of listLeases(store))
      if (typeof holder !== "string" && !isHeld(holder, valid)) attempt(() => release(store, holder))
  return failures
}

function isHeld(holder: { containerId: string; ifName: string }, valid: readonly AttachmentId[]): boolean {
  return valid.some(
    ({ containerId, ifName }) =>
      containerId === holder.containerId && (holder.ifName === "" || ifName === holder.ifName),
  )
}

function staleLeases(network: string, stores: readonly Store[], valid: readonly AttachmentId[]): Belonging[] {
  return stores.flatMap(listLeases).flatMap(({ address, holder }): Belonging[] => {
    if (typeof holder === "string") return [] // not a reservation of a container
    return isHeld(holder, valid)
      ? []
      : [{ kind: "lease", what: address, owner: `${network}/${holder.containerId}/${holder.ifName}` }]
  })
}

function staleLinks(isStale: (owner: string) => boolean): Belonging[] {
  using host = RouteSocket.open()
  const links = listLinks(host, ({ attributes: { alias } }) => alias !== undefined && isStale(alias))
  return links.map(({ name, attributes }) => ({ kind: "link", what: name, owner: attributes.alias ?? "" }))
}

function staleRules(isStale: (owner: string) => boolean): Belonging[] {
  using filter = findFilter()
  const { rules, elements } = filter ? listCommented(filter.socket, isStale) : { rules: [], elements: [] }
  const native = [...rules, ...elements].map(({ table, name, comment }) => ({
    what: `${table.family} ${table.name} ${name}`,
    owner: comment,
  }))
  const iptables = findEverywhere(filter?.socket, "nat", containerChains).flatMap(({ family, rules }) =>
    rules.flatMap((rule) => {
      const owner = commentOf(rule)
      return owner !== undefined && isStale(owner) ? [{ what: `${tableFamily[family]} nat ${rule.chain}`, owner }] : []
    }),
  )
  const found = new Map([...native, ...iptables].map((one) => [`${one.what} ${one.owner}`, one])) // each object once
  return [...found.values()].map((one) => ({ kind: "rule", ...one }))
}

/** Returns the packet filter, or undefined if it does not exist or this user may not read it. */
function findFilter(): PacketFilter | undefined {
  return unlessErrno(PacketFilter.find, "EPERM")
}

/** Returns a function that reports whether an owner is an attachment to `network` that is not in `valid`. */
function staleness(network: string, valid: readonly AttachmentId[]): (owner: string) => boolean {
  const owners = new Set(valid.map(({ containerId, ifName }) => ownerComment({ network, containerId, ifName })))
  // A comment of the reference suite names no interface: other words, then `name: "NETWORK" id: "CONTAINER"`.
  const upstream = `name: ${JSON.stringify(network)} id: `
  const containers = new Set(valid.map(({ containerId }) => JSON.stringify(containerId)))
  return (owner) => {
    const at = owner.indexOf(upstream)
    if (at !== -1) return !containers.has(owner.slice(at + upstream.length))
    const [mark = ""] = owner.split(" ") // a path may follow the owner
    return isOwnerOf(mark, network) && !owners.has(mark)
  }
}
