import { fileSystemType, isErrno } from "../../pkg/libc/mod.ts"
import type { CachedAttachment } from "../../pkg/libcni/mod.ts"
import { decodeResult, isJsonObject, type Owner, ownerComment, type Result } from "../../pkg/types/mod.ts"
import type { OwnedRule } from "./filter-rules.ts"
import { foreign } from "./foreign.ts"
import { type FindInhabitant, inhabitants } from "./inhabitants.ts"
import type { NodeLink } from "./links.ts"
import { askedPorts, hostPart } from "./ports.ts"
import type { CacheEntry, Node } from "./read.ts"

/** The kinds of records that may name an attachment. */
export type Source = "cache" | "lease" | "link" | "rule"

/** A container's interface in a network, joined from all records on the node that name it. */
export interface NodeAttachment extends Owner {
  /** The pod's name in `CNI_ARGS`, as kubelet and other runtimes set it. */
  readonly pod?: { readonly namespace: string; readonly name: string } | undefined
  readonly sources: readonly Source[]
  /** The path of the container's namespace. Undefined if no record has it. */
  readonly netns?: string | undefined
  /**
   * The recorded path, if it no longer is a namespace and a process still runs in the container's namespace. `netns` is
   * then the path of that process's namespace.
   */
  readonly lostPath?: string | undefined
  /** Whether a namespace exists at the path. Undefined if unknown. */
  readonly isAlive?: boolean | undefined
  /** The container's addresses, with prefix length if known. */
  readonly addresses: readonly string[]
  /** The published ports that have rules: "8080→80/tcp", "203.0.113.1:8080→80/tcp". */
  readonly ports: readonly string[]
  /** Requested ports without a rule. */
  readonly unservedPorts: readonly string[]
  /** Requested ports that lead to another interface of the container, because a port has one destination at a time. */
  readonly standbyPorts?: readonly string[] | undefined
  /** The host's end, or the link inside the container if the host has no end. */
  readonly link?: NodeLink | undefined
  /** Other links on the host whose alias also names this attachment. */
  readonly twins?: readonly NodeLink[] | undefined
  readonly rules: readonly OwnedRule[]
  /** The time of ADD, in milliseconds since 1970. */
  readonly addedMs?: number | undefined
  readonly cached?: CacheEntry | undefined
  readonly result?: Result | undefined
  /** The reasons why the attachment is an orphan, as sentences. Empty unless its container is known to be deleted. */
  readonly orphan: readonly string[]
}

interface Draft {
  owner: Owner
  sources: Set<Source>
  netns?: string | undefined
  isAlive?: boolean | undefined
  addresses: string[]
  ports: string[]
  links: NodeLink[]
  rules: OwnedRule[]
  addedMs?: number | undefined
  cached?: CacheEntry
  result?: Result | undefined
  /** Whether the lease belongs to a container that no longer exists. False if unknown. */
  isLeaseStale?: boolean
}

/** Returns all attachments that the node's records name, with their records joined. */
export function attachmentsOf(node: Node): NodeAttachment[] {
  const drafts = new Drafts()
  for (const cached of node.cache) addCached(drafts, cached, cached.writtenMs)
  for (const store of node.stores) addLeases(drafts, store)
  for (const link of node.links) {
    if (link.alias === undefined || !isOwner(link.alias)) continue
    const draft = drafts.named(link.alias)
    draft.sources.add("link")
    draft.links.push(link)
  }
  for (const rule of node.rules.owned) {
    for (const draft of drafts.ownersOf(rule)) {
      draft.sources.add("rule")
      draft.rules.push(rule)
    }
  }
  for (const { hostPort, to, owner, netns } of node.rules.ports) {
    const draft = isOwner(owner) ? drafts.named(owner) : undefined
    draft?.ports.push(hostPort.replace("/", `→${to.slice(to.lastIndexOf(":") + 1)}/`))
    if (draft && draft.netns === undefined) draft.netns = netns
  }
  const find = inhabitants()
  const all = drafts.all()
  const byContainer = Map.groupBy(all, ({ owner }) => owner.containerId)
  return all.map((draft) => finish(draft, node, find, byContainer.get(draft.owner.containerId) ?? []))
}

/** Attachments under construction, by the comment that names them in kernel objects. */
class Drafts {
  readonly #byComment = new Map<string, Draft>()

  of(owner: Owner): Draft {
    return this.#byComment.getOrInsertComputed(ownerComment(owner), () => ({
      owner,
      sources: new Set(),
      addresses: [],
      ports: [],
      links: [],
      rules: [],
    }))
  }

  named(comment: string): Draft {
    const [network = "", containerId = "", ifName = ""] = comment.split("/")
    return this.#byComment.get(comment) ?? this.of({ network, containerId, ifName })
  }

  /** Returns a rule's attachments: several if its comment names no interface, as in the reference suite. */
  ownersOf({ owner }: OwnedRule): Draft[] {
    if (isOwner(owner)) return [this.named(owner)]
    const found = commentOfContainer(owner)
    if (found === undefined) return []
    const { network, containerId } = found
    const known = this.all().filter(
      (draft) => containerId === draft.owner.containerId && (network === undefined || network === draft.owner.network),
    )
    return known.length > 0 || network === undefined ? known : [this.of({ network, containerId, ifName: "" })]
  }

  all(): Draft[] {
    return [...this.#byComment.values()]
  }
}

function addCached(drafts: Drafts, cached: CacheEntry, writtenMs: number | undefined): void {
  const { network, containerId, ifName } = cached
  const draft = drafts.of({ network, containerId, ifName })
  const result = resultOf(cached)
  draft.sources.add("cache")
  draft.cached = cached
  draft.result = result
  draft.addedMs = writtenMs
  draft.netns = cached.netns || result?.interfaces.find(({ sandbox }) => sandbox)?.sandbox
  draft.addresses.push(...(result?.ips.filter((ip) => isOfContainer(ip, result)).map(({ address }) => address) ?? []))
}

/** Reports whether an address is the container's, and not that of an interface of the host in the result. */
function isOfContainer({ interface: index }: Result["ips"][number], { interfaces }: Result): boolean {
  return index === undefined || interfaces[index] === undefined || Boolean(interfaces[index].sandbox)
}

function resultOf({ result }: CachedAttachment): Result | undefined {
  if (!isJsonObject(result)) return undefined
  try {
    return decodeResult(result, typeof result.cniVersion === "string" ? result.cniVersion : "1.1.0")
  } catch {
    return undefined
  }
}

function addLeases(drafts: Drafts, { network, leases }: Node["stores"][number]): void {
  for (const { address, holder, netns, writtenMs, liveness } of leases) {
    if (typeof holder === "string") continue
    const draft = drafts.of({ network, ...holder })
    draft.sources.add("lease")
    if (!draft.addresses.some((known) => known.split("/")[0] === address)) draft.addresses.push(address)
    if (netns !== undefined) {
      draft.netns ??= netns.path
      if (draft.netns === netns.path) draft.isAlive = netns.exists
    }
    draft.addedMs ??= writtenMs
    draft.isLeaseStale = liveness === "dead" || liveness === "lost"
  }
}

/** Tables, chains and sets of published ports, in the packet filters of both suites. */
const PORT_PLACES = /cni_hostport|nat (CNI-DN|CNI-HOSTPORT)/
/** The sets of published ports of this suite, from which `ports` is filled. */
const OUR_PORTS = /cni_hostports/

/** Returns the published ports according to the rules, or the requested ports if the rules are unreadable. */
function portsOf(
  { cached, ports: found, rules }: Draft,
  { unread }: Node,
  ofContainer: readonly Draft[],
): Pick<NodeAttachment, "ports" | "unservedPorts" | "standbyPorts"> {
  const asked = askedPorts(cached)
  const areOthers = rules.some(({ place }) => PORT_PLACES.test(place) && !OUR_PORTS.test(place))
  if (areOthers || unread.some(({ what }) => what === "rules"))
    return { ports: [...new Set([...found, ...asked])], unservedPorts: [] }
  const lost = asked.filter((port) => !found.includes(port))
  if (lost.length === 0) return { ports: [...new Set(found)], unservedPorts: [] }
  const served = new Set(ofContainer.flatMap(({ ports }) => ports.map(hostPart)))
  const { standby = [], missing = [] } = Object.groupBy(lost, (port) =>
    served.has(hostPart(port)) ? "standby" : "missing",
  )
  return {
    ports: [...new Set(found)],
    unservedPorts: missing,
    ...(standby.length === 0 ? {} : { standbyPorts: standby }),
  }
}

function finish(draft: Draft, node: Node, find: FindInhabitant, ofContainer: readonly Draft[]): NodeAttachment {
  const { owner, sources, addresses, rules, addedMs, cached, result } = draft
  const { link, twins } = linksOf(draft, node.links)
  const { netns, isAlive, lostPath } = placeOf(draft, link, find)
  const isLeaseStale = draft.isLeaseStale === true && lostPath === undefined
  const pod = cached && podOf(cached)
  return {
    ...owner,
    sources: [...sources],
    addresses,
    ...portsOf(draft, node, ofContainer),
    rules,
    orphan: orphanReasons({ sources, netns: draft.netns, isAlive, isLeaseStale }, link, node.unread),
    pod,
    netns,
    isAlive,
    lostPath,
    link,
    twins,
    addedMs,
    cached,
    result,
  }
}

/** Returns an attachment's link, and surplus veth ends as `twins`. Of several links, the result's is `link`. */
function linksOf({ links, result }: Draft, all: readonly NodeLink[]): Pick<NodeAttachment, "link" | "twins"> {
  const [only, ...others] = links
  if (only && others.length === 0) return { link: only } // the usual case, without a search through all links
  const named = hostEndOf(result, all)
  const link = links.find((each) => each === named) ?? links[0] ?? named
  const twins = links.filter((each) => each !== link && each.kind === "veth" && each.nsid === undefined)
  return { link, twins: twins.length === 0 || link?.kind !== "veth" ? undefined : twins }
}

/** Returns the path of the namespace: the recorded one or, if that was unmounted, the path of a process in it. */
function placeOf({ netns, isAlive: noted }: Draft, link: NodeLink | undefined, find: FindInhabitant) {
  const isAlive = noted ?? (netns === undefined ? undefined : isNamespace(netns))
  const pid = isAlive === false && link ? find(link) : undefined
  if (pid === undefined) return { netns, isAlive, lostPath: undefined }
  return { netns: `/proc/${pid}/ns/net`, isAlive: true, lostPath: netns }
}

/** Returns the host's end that a result names, because links of the reference suite have no alias. */
function hostEndOf(result: Result | undefined, links: readonly NodeLink[]): NodeLink | undefined {
  const names = result?.interfaces.filter(({ sandbox }) => !sandbox).map(({ name }) => name) ?? []
  return links.find(({ name, kind, nsid }) => nsid === undefined && kind === "veth" && names.includes(name))
}

/** Returns the reasons why an attachment's container no longer exists, or why no verb would delete its objects. */
function orphanReasons(
  { sources, isAlive, netns, isLeaseStale }: Pick<Draft, "sources" | "netns" | "isAlive" | "isLeaseStale">,
  link: NodeLink | undefined,
  unread: Node["unread"],
): string[] {
  const has = (source: Source) => sources.has(source)
  const reasons: string[] = []
  if (isAlive === false) {
    if (has("lease")) reasons.push("lease without namespace")
    if (has("cache")) reasons.push("cache entry without namespace")
    if (has("rule")) reasons.push("rules without namespace")
  } else if (has("lease") && isLeaseStale) reasons.push("lease of an earlier boot or namespace")
  if (has("cache") || unread.some(({ what }) => what === "cache" || what === "leases")) return reasons
  if (has("link")) reasons.push("link without cache entry")
  if (has("rule") && !has("lease")) reasons.push("rules without lease")
  if (has("lease") && netns === undefined && link === undefined) reasons.push("lease without cache entry")
  return reasons
}

/** Reports whether a namespace exists at a path: a mount of nsfs, not the empty file that remains after a reboot. */
export function isNamespace(path: string): boolean | undefined {
  const nsfsMagic = 0x6e736673 // NSFS_MAGIC, <linux/magic.h>
  try {
    return fileSystemType(path) === nsfsMagic
  } catch (error) {
    return isErrno(error, "ENOENT", "ENOTDIR") ? false : undefined
  }
}

/** Returns the pod in "K8S_POD_NAMESPACE" and "K8S_POD_NAME" of Kubernetes runtimes. Podman sets only the name. */
function podOf({ args }: CachedAttachment): NodeAttachment["pod"] {
  const values = new Map(args)
  const name = values.get("K8S_POD_NAME")
  return name ? { namespace: foreign(values.get("K8S_POD_NAMESPACE") ?? ""), name: foreign(name) } : undefined
}

/** Returns the container in a comment of the reference suite: `name: "NETWORK" id: "CONTAINER"`, or only the ID. */
function commentOfContainer(comment: string): { network: string | undefined; containerId: string } | undefined {
  const [, network, containerId] = /(?:name: "([^"]*)" )?id: "([^"]*)"/.exec(comment) ?? []
  return containerId === undefined ? undefined : { network, containerId }
}

/** Reports whether a comment has the form "network/container/interface". */
function isOwner(comment: string): boolean {
  const second = comment.indexOf("/", comment.indexOf("/") + 1)
  return second > 0 && comment.indexOf("/", second + 1) === -1
}
