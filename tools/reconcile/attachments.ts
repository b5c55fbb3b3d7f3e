import { keptDelegate } from "../../meta/flannel/main.ts"
import { findStat, type Stat, stat } from "../../pkg/libc/mod.ts"
import {
  type CachedAttachment,
  type CapabilityArgs,
  cachedAttachments,
  cacheFile,
  convertResult,
  deriveRequest,
  type Network,
  type NetworkPlugin,
  parseNetworkList,
  parseSinglePlugin,
} from "../../pkg/libcni/mod.ts"
import { isJsonObject, type JsonObject, messageOf, type Owner, parseJsonObject } from "../../pkg/types/mod.ts"
import { cacheDirs, isNamespace } from "../node/mod.ts"

/** One plugin of an attachment's chain, with what CHECK would give it. */
export interface ChainMember {
  readonly type: string
  readonly config: JsonObject
}

/** An attachment of a container that lives, as a cache has it. */
export interface CachedChain extends Owner {
  readonly netns: string
  readonly args: CachedAttachment["args"]
  readonly chain: readonly ChainMember[]
  /** The file of its record. */
  readonly record: string
}

/** An attachment, or a cache, of which nothing can be made again. */
export interface Skipped extends Partial<Owner> {
  readonly reason: string
  /** The container may live, so that something may be missing still. */
  readonly isFailure: boolean
}

/** What the caches of a node tell. */
export interface Cached {
  readonly chains: readonly CachedChain[]
  readonly skipped: readonly Skipped[]
  /** The networks of all attachments that the caches have. */
  readonly networks: readonly string[]
}

/**
 * Reads the attachments of all networks, or of one, from the runtime's cache and those below it, in the order of their ADDs. A cache
 * that others than root can change is not believed, and is told as skipped, as is what is no longer there.
 */
export function readCaches(
  cacheDir: string,
  network: string | undefined,
  isBeingDeleted: (owner: Owner) => boolean = () => false,
): Cached {
  const skipped: Skipped[] = []
  const found = cacheDirs(cacheDir).flatMap((directory) => {
    try {
      return cachedAttachments(directory).map((one) => {
        const record = cacheFile(directory, one)
        return { one, record, added: findStat(record)?.modified ?? 0n }
      })
    } catch (error) {
      skipped.push({ reason: messageOf(error), isFailure: true })
      return []
    }
  })
  const wanted = found.filter(({ one }) => network === undefined || one.network === network)
  wanted.sort((a, b) => (a.added < b.added ? -1 : a.added > b.added ? 1 : 0))
  const parsed = new Map<Uint8Array, Network>()
  const own = stat("/proc/self/ns/net")
  const chains = wanted.flatMap(({ one, record }): CachedChain[] => {
    const { network, containerId, ifName } = one
    const skip = (reason: string, isFailure: boolean) => {
      skipped.push({ network, containerId, ifName, reason, isFailure })
      return []
    }
    const netns = one.netns || sandboxOf(one.result)
    if (netns === undefined) return skip("the cache names no namespace, so it is not known whether it is there", true)
    const isThere = isNamespace(netns)
    if (isThere === undefined) return skip(`its namespace "${netns}" cannot be looked at`, true)
    // The number of a process can be another one's by now, which has the host's namespace.
    if (!isThere || isSameFile(findStat(netns), own)) return skip(`its namespace "${netns}" is gone`, false)
    if (isBeingDeleted(one)) return skip("its DEL has begun", false)
    try {
      const chain = withDelegates(chainOf(one, parsed), one, (reason) => skip(reason, true))
      return [{ network, containerId, ifName, netns, args: one.args, chain, record }]
    } catch (error) {
      return skip(messageOf(error), true)
    }
  })
  return { chains, skipped, networks: [...new Set(found.map(({ one }) => one.network))] }
}

/** Whether an attachment was deleted since it was read: its record or its namespace is gone. */
export function isGone({ record, netns }: CachedChain): boolean {
  return findStat(record) === undefined || isNamespace(netns) === false
}

function isSameFile(a: Stat | undefined, b: Stat): boolean {
  return a !== undefined && a.device === b.device && a.inode === b.inode
}

function sandboxOf(result: JsonObject | undefined): string | undefined {
  const { interfaces } = result ?? {}
  const sandboxes = (Array.isArray(interfaces) ? interfaces : []).filter(isJsonObject).map(({ sandbox }) => sandbox)
  return sandboxes.find((sandbox) => typeof sandbox === "string" && sandbox !== "") as string | undefined
}

/** With the delegate in the place of flannel, which keeps its configuration. Where that is unknown the others of the chain go on. */
function withDelegates(chain: ChainMember[], owner: Owner, refuse: (reason: string) => void): ChainMember[] {
  return chain.flatMap((member) => {
    if (member.type !== "flannel") return member
    try {
      return keptDelegate(member.config, owner)
    } catch (error) {
      refuse(messageOf(error))
      return []
    }
  })
}

/** The network as it was at ADD. Throws for what cannot be read. */
function readNetwork(config: Uint8Array): Network {
  const { plugins, type } = parseJsonObject(config, "cached configuration")
  const list = plugins === undefined && type !== undefined ? parseSinglePlugin(config) : parseNetworkList(config)
  return { ...list, disableCheck: false, disableGC: false, bytes: config, warnings: [] }
}

/**
 * The chain of ADD, each plugin with its values and the result; `networks` are those that were read, by their bytes, which attachments
 * share. Throws for what cannot be read.
 */
function chainOf(
  { config, capabilityArgs, result }: CachedAttachment,
  networks: Map<Uint8Array, Network>,
): ChainMember[] {
  const network = networks.getOrInsertComputed(config, readNetwork)
  if (result === undefined) throw new Error("the cache has no result of ADD")
  const prevResult = (
    result.cniVersion === network.cniVersion ? result : convertResult(result, network.cniVersion)
  ) as JsonObject
  return network.plugins.map((plugin: NetworkPlugin) => ({
    type: plugin.type,
    config: deriveRequest(network, plugin, { capabilityArgs: capabilityArgs as CapabilityArgs, prevResult }),
  }))
}
