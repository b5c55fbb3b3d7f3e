import { statfsSync } from "node:fs"
import { listLeases, type Store } from "../../ipam/host-local/main.ts"
import { commentOf, findEverywhere } from "../../pkg/iptables/mod.ts"
import { isErrno } from "../../pkg/libc/mod.ts"
import {
  type AttachmentId,
  type CachedAttachment,
  cachedAttachments,
  gcNetwork,
  staleAttachments,
} from "../../pkg/libcni/mod.ts"
import { listLinks, RouteSocket } from "../../pkg/netlink/mod.ts"
import { listCommented, PacketFilter, tableFamily } from "../../pkg/nftables/mod.ts"
import { isOwnerOf, ownerComment } from "../../pkg/types/mod.ts"
import { type Command, given, networkOf, runtimeFlags, runtimeOf, texts, UsageError, word } from "./command.ts"
import { storesOf } from "./ipam.ts"
import { table } from "./tables.ts"

/** `cni gc` */
export const gc: Command = {
  summary: "Delete what containers that are gone left behind in a network",
  words: ["NETWORK"],
  flags: {
    keep: { type: "string", multiple: true, value: "ID/IFNAME", help: "an attachment to leave alone; repeat for each" },
    auto: { type: "boolean", help: "keep every attachment whose namespace still exists" },
    "dry-run": { type: "boolean", help: "only say what would be kept and deleted" },
    ...runtimeFlags,
  },
  help: `Everything of this network is deleted that is not kept, so say what to keep: a list, or --auto, or both.
--auto knows the attachments in --cache-dir only: it must be the one of the runtime that made them. Both with and without
--dry-run it prints every attachment in the cache, and every lease, link and rule that is deleted.

Examples:
  cni gc mynet --auto --dry-run
  cni gc mynet --auto
  cni gc mynet --keep 4e5f6a/eth0 --keep 4e5f6a/net1`,
  async run(args, terminal) {
    const listed = texts(args, "keep").map(parseKeep)
    if (listed.length === 0 && !given(args, "auto")) {
      throw new UsageError("nothing is deleted without knowing what to keep: give --keep ID/IFNAME for each, or --auto")
    }
    const runtime = runtimeOf(args, terminal)
    const network = networkOf(word(args, 0), args, terminal)
    const stores = storesOf(network.name, args, terminal)
    const attached = () => cachedAttachments(runtime.cacheDir).filter((one) => one.network === network.name)
    const dry = given(args, "dry-run")
    /** Decides what to keep and says what that means. */
    const decide = () => {
      const valid = [...listed, ...(given(args, "auto") ? attached().filter(isAlive) : [])]
      const stale = new Set(staleAttachments(runtime, network, valid).map(nameOf))
      const belongings = staleBelongings(network.name, stores, valid)
      const fate = dry ? "would delete" : "delete"
      const rows = [
        ...attached().map((one) => [
          stale.has(nameOf(one)) ? fate : "keep",
          "attachment",
          nameOf(one),
          one.netns || "unknown namespace",
        ]),
        ...belongings.map(({ kind, what, owner }) => [fate, kind, what, owner]),
      ]
      terminal.stdout(rows.length > 0 ? table(["WHAT", "KIND", "NAME", "OF"], rows) : "Nothing to keep or delete\n")
      return { valid, belongings }
    }
    if (network.disableGC) {
      terminal.stdout(`Network "${network.name}" has "disableGC": nothing is deleted\n`)
      return
    }
    if (dry) {
      decide()
      return
    }
    let decided: ReturnType<typeof decide> | undefined
    await gcNetwork(runtime, network, () => {
      decided = decide()
      return decided.valid
    })
    const left = decided ? staleBelongings(network.name, stores, decided.valid) : []
    const still = (decided?.belongings ?? []).filter((one) => left.some((other) => isSame(one, other)))
    for (const { kind, what, owner } of still) {
      terminal.stderr(`Warning: no plugin of the network has deleted ${kind} ${what} of ${owner}\n`)
    }
  },
}

function isSame(a: Belonging, b: Belonging): boolean {
  return a.kind === b.kind && a.what === b.what && a.owner === b.owner
}

function parseKeep(text: string): AttachmentId {
  const [containerId, ifName, ...more] = text.split("/")
  if (containerId && ifName && more.length === 0) return { containerId, ifName }
  throw new UsageError(`Cannot use --keep ${text}: expected ID/IFNAME, like 4e5f6a/eth0`)
}

/** Whether the namespace is there: a mount of nsfs, not the empty file that a reboot leaves. Unknown counts as alive. */
function isAlive({ netns }: CachedAttachment): boolean {
  if (netns === "") return true
  const nsfsMagic = 0x6e736673 // NSFS_MAGIC, <linux/magic.h>
  try {
    return statfsSync(netns).type === nsfsMagic
  } catch (error) {
    return !(error instanceof Error && "code" in error && (error.code === "ENOENT" || error.code === "ENOTDIR"))
  }
}

function nameOf({ containerId, ifName }: AttachmentId): string {
  return `${containerId}/${ifName}`
}

/** Something that an attachment has on this host. */
export interface Belonging {
  readonly kind: "lease" | "link" | "rule"
  /** "10.22.0.7", "veth01ab23cd", "ip cni_masquerade containers" */
  readonly what: string
  /** As the thing itself says it: "network/container/interface", or what the reference suite writes. */
  readonly owner: string
}

/** Chains of containers that either suite makes with iptables. */
const CONTAINER_CHAINS = /^CNI-/
const PARENTS = ["POSTROUTING", "CNI-HOSTPORT-DNAT"]

/**
 * What attachments of a network have on this host that are not valid, by the owner's name on each thing: the addresses in
 * `stores`, links, and rules of both packet filters. This is what a GC goes by, too. Throws `EPERM` without CAP_NET_ADMIN.
 */
export function staleBelongings(
  network: string,
  stores: readonly Store[],
  valid: readonly AttachmentId[],
): Belonging[] {
  const isStale = staleness(network, valid)
  return [...staleLeases(network, stores, valid), ...staleLinks(isStale), ...staleRules(isStale)]
}

function staleLeases(network: string, stores: readonly Store[], valid: readonly AttachmentId[]): Belonging[] {
  return stores.flatMap(listLeases).flatMap(({ address, holder }): Belonging[] => {
    if (typeof holder === "string") return [] // no reservation of a container's
    const isHolder = ({ containerId, ifName }: AttachmentId) =>
      containerId === holder.containerId && (holder.ifName === "" || ifName === holder.ifName)
    return valid.some(isHolder)
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
  const search = { chains: CONTAINER_CHAINS, parents: PARENTS }
  const iptables = findEverywhere(filter?.socket, "nat", search).flatMap(({ family, rules }) =>
    rules.flatMap((rule) => {
      const owner = commentOf(rule)
      return owner !== undefined && isStale(owner) ? [{ what: `${tableFamily[family]} nat ${rule.chain}`, owner }] : []
    }),
  )
  return [...native, ...iptables].map((found) => ({ kind: "rule", ...found }))
}

/** Undefined where there is no packet filter, and where this user may not look at it. */
function findFilter(): PacketFilter | undefined {
  try {
    return PacketFilter.find()
  } catch (error) {
    if (isErrno(error, "EPERM")) return undefined
    throw error
  }
}

/** Tells what a name on a thing says: an attachment of this network, and none that is valid. */
function staleness(network: string, valid: readonly AttachmentId[]): (owner: string) => boolean {
  const owners = new Set(valid.map(({ containerId, ifName }) => ownerComment({ network, containerId, ifName })))
  // `name: "NETWORK" id: "CONTAINER"`, with words before it: the reference suite's, for any interface
  const upstream = `name: ${JSON.stringify(network)} id: `
  const containers = new Set(valid.map(({ containerId }) => JSON.stringify(containerId)))
  return (owner) => {
    const at = owner.indexOf(upstream)
    if (at !== -1) return !containers.has(owner.slice(at + upstream.length))
    const [mark = ""] = owner.split(" ") // a path may follow it
    return isOwnerOf(mark, network) && !owners.has(mark)
  }
}
