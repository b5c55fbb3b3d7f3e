import { keptDelegate } from "../../meta/flannel/main.ts"
import { json } from "../../pkg/engine/mod.ts"
import { formatCniArgs } from "../../pkg/invoke/mod.ts"
import { findStat, readTextFile, type Stat, stat, unlessErrno } from "../../pkg/libc/mod.ts"
import {
  type CachedAttachment,
  cachedAttachments,
  deriveRequest,
  type Network,
  parseNetworkList,
  parseSinglePlugin,
} from "../../pkg/libcni/mod.ts"
import { findLink, listLinks, RouteSocket } from "../../pkg/netlink/mod.ts"
import { Netns } from "../../pkg/netns/mod.ts"
import { readDeletions } from "../../pkg/records/mod.ts"
import {
  decodeResult,
  isJsonObject,
  type JsonObject,
  member,
  messageOf,
  type Owner,
  ownerComment,
  parseJsonObject,
  type Result,
} from "../../pkg/types/mod.ts"
import { describedPlugins as suite } from "../../suite/plugins.ts"
import { cacheDirs, type NameOf } from "../node/mod.ts"

export interface ChainMember {
  readonly type: string
  /** The plugin's CHECK input without `prevResult` and `runtimeConfig`, shared by all attachments of a network. */
  readonly config: JsonObject
  /** The `runtimeConfig` as JSON. */
  readonly runtimeConfig?: string
}

/** An attachment of a running container, read from a cache. */
export interface CachedChain extends Owner {
  /** A `RestoreAttachment` as JSON, without the keys that differ between plugins and without the closing brace. */
  readonly text: string
  readonly chain: readonly ChainMember[]
}

/** An attachment or a cache that was skipped, and the reason. */
export interface Skipped extends Partial<Owner> {
  readonly record?: string
  readonly reason: string
  /** Whether the container may be running, so that its objects may be missing. */
  readonly isFailure: boolean
}

/** The content of a node's caches. */
export interface Cached {
  readonly chains: readonly CachedChain[]
  readonly skipped: readonly Skipped[]
  /** All attachments in the caches. */
  readonly owners: readonly Owner[]
}

/** The data of a record that are kept. All others are freed at once, because a node has hundreds of records. */
interface Read extends Owner {
  readonly added: bigint
  readonly skipped?: readonly Skipped[]
  readonly chain?: CachedChain
}

export interface Wanted {
  readonly cacheDir: string
  /** The only network to read. All networks if undefined. */
  readonly network: string | undefined
  /** Whether to keep the arguments of ADD, which objects inside containers need. */
  readonly containers?: boolean | undefined
}

/**
 * Reads the attachments of all networks, or of one, in the order of their ADDs, from the runtime's cache and caches
 * below it. Skips and reports caches that users other than root can change, and attachments that no longer exist.
 */
export function readCaches(wanted: Wanted, nameOf: NameOf): Cached {
  const unreadable: Skipped[] = []
  const read = recordReader(wanted, nameOf)
  const found = cacheDirs(wanted.cacheDir).flatMap((directory) => {
    try {
      return cachedAttachments(directory, undefined, undefined, read)
    } catch (error) {
      unreadable.push({ reason: messageOf(error), isFailure: true })
      return []
    }
  })
  found.sort((a, b) => (a.added < b.added ? -1 : a.added > b.added ? 1 : 0))
  return {
    chains: found.flatMap(({ chain }) => chain ?? []),
    skipped: [...unreadable, ...found.flatMap(({ skipped }) => skipped ?? [])],
    owners: found,
  }
}

function recordReader({ network: only, containers }: Wanted, nameOf: NameOf) {
  const chainOf = chainReader()
  const restorers = new Set(suite.filter(({ restores }) => restores).map(({ name }) => name))
  const host = stat("/proc/self/ns/net")
  const [isBeingDeleted, hasInterface] = [readDeletions(), interfaceTest()]
  return (one: CachedAttachment, record: string): Read => {
    const { network, containerId, ifName } = one
    const owner = { network, containerId, ifName }
    const added = findStat(record)?.modified ?? 0n
    const skipped: Skipped[] = []
    const skip = (reason: string, isFailure: boolean): Read => {
      skipped.push({ ...owner, reason, isFailure, record })
      return { ...owner, added, skipped }
    }
    if (only !== undefined && network !== only) return { ...owner, added }
    const netns = one.netns || sandboxOf(one.result)
    if (netns === undefined)
      return skip("the cache does not record its namespace, so the state of the container is unknown", true)
    let found: Stat | undefined
    try {
      found = unlessErrno(() => findStat(netns), "ENOTDIR")
    } catch {
      return skip(`its namespace "${netns}" cannot be inspected`, true)
    }
    // All namespaces are on one device. A path with a process ID may now be that of a process in the host's namespace.
    if (found?.device !== host.device || found.inode === host.inode)
      return skip(`its namespace "${netns}" does not exist`, false)
    if (isBeingDeleted(owner, added)) return skip("a DEL has started", false)
    try {
      const { result, chain: members } = chainOf(one)
      const chain = withDelegates(members, owner, nameOf, (reason) => skip(reason, true))
      if (chain.some(({ type }) => restorers.has(nameOf(type))) && !hasInterface(owner, result, netns))
        return skip(`its interface was deleted; "cni reattach ${ownerComment(owner)}" creates a new one`, true)
      const args = containers ? formatCniArgs(one.args) : ""
      const text = json.stringify({ containerId, ifName, netns, args, result }).slice(0, -1)
      return { ...owner, added, skipped, chain: { ...owner, text, chain } }
    } catch (error) {
      return skip(messageOf(error), true)
    }
  }
}

/**
 * Returns a function that reports whether a container still has its interface: the host has its end of the pair or, for
 * other links, the container has the interface. Throws `SyscallError` and `NetlinkError`.
 */
function interfaceTest(): (owner: Owner, result: Result, netns: string) => boolean {
  const lines = readTextFile("/proc/thread-self/net/dev").split("\n")
  const names = new Set(lines.map((line) => line.slice(0, line.indexOf(":")).trimStart()))
  let aliases: Set<string | undefined> | undefined
  const isRenamed = (owner: Owner) => {
    using host = RouteSocket.open()
    aliases ??= new Set(listLinks(host, undefined, { kind: "veth" }).map(({ attributes }) => attributes.alias))
    return aliases.has(ownerComment(owner))
  }
  return (owner, { interfaces }, netns) => {
    const ends = interfaces.filter(({ name, sandbox }) => !sandbox && name.startsWith("veth"))
    if (ends.length > 0) return ends.some(({ name }) => names.has(name)) || isRenamed(owner)
    using sandbox = Netns.open(netns)
    using inside = sandbox.openRoute()
    return findLink(inside, owner.ifName) !== undefined
  }
}

function sandboxOf(result: JsonObject | undefined): string | undefined {
  const { interfaces } = result ?? {}
  const sandboxes = (Array.isArray(interfaces) ? interfaces : []).filter(isJsonObject).map(({ sandbox }) => sandbox)
  return sandboxes.find((sandbox) => typeof sandbox === "string" && sandbox !== "") as string | undefined
}

/** Replaces flannel with its delegate from flannel's file. If that is unreadable, calls `refuse` and omits flannel. */
function withDelegates(
  chain: readonly ChainMember[],
  owner: Owner,
  nameOf: NameOf,
  refuse: (reason: string) => void,
): ChainMember[] {
  return chain.flatMap((member) => {
    if (nameOf(member.type) !== "flannel") return member
    try {
      return { ...member, ...keptDelegate(member.config, owner) }
    } catch (error) {
      refuse(messageOf(error))
      return []
    }
  })
}

/** Returns the network in the record of an ADD. Throws for unreadable content. */
function readNetwork(config: Uint8Array): Network {
  const { plugins, type } = parseJsonObject(config, "cached configuration")
  const list = plugins === undefined && type !== undefined ? parseSinglePlugin(config) : parseNetworkList(config)
  return { ...list, disableCheck: false, disableGC: false, bytes: config, warnings: [] }
}

/** Returns a parser of ADD's result and plugins. It parses each network once, and throws for unreadable content. */
function chainReader(): (one: CachedAttachment) => { result: Result; chain: ChainMember[] } {
  const networks = new Map<Uint8Array, { cniVersion: string; members: ReturnType<typeof membersOf> }>()
  return ({ config, capabilityArgs, result }) => {
    const { cniVersion, members } = networks.getOrInsertComputed(config, () => {
      const network = readNetwork(config)
      return { cniVersion: network.cniVersion, members: membersOf(network) }
    })
    if (result === undefined) throw new Error("the cache has no result of ADD")
    const chain = members.map(({ capabilities, member }) => {
      const given = capabilities.filter((name) => capabilityArgs[name] !== undefined)
      if (given.length === 0) return member
      return {
        ...member,
        runtimeConfig: json.stringify(Object.fromEntries(given.map((name) => [name, capabilityArgs[name]]))),
      }
    })
    return { result: decodeResult(result, cniVersion), chain }
  }
}

/** Returns the plugins of a network with the capabilities that they enable. */
function membersOf(network: Network) {
  return network.plugins.map((plugin) => {
    const config = deriveRequest(network, plugin, { capabilityArgs: {} })
    const entries = Object.entries(member(plugin.raw, "capabilities") ?? {})
    const capabilities = entries.filter(([, isEnabled]) => isEnabled === true).map(([name]) => name)
    return { capabilities, member: { type: plugin.type, config } satisfies ChainMember }
  })
}
