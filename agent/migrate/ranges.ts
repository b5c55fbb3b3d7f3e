import { formatAddress, type HostLocalConfig, parseAddress, parseHostLocalConfig } from "../../ipam/host-local/main.ts"
import { isJsonObject, newestVersion, parseNetworkConfig } from "../../pkg/types/mod.ts"
import { formatPrefix } from "../blocks.ts"
import type { Block, Owner, Pool, PoolPrefix } from "../records.ts"
import { covers, prefixesOf, prefixOf, type Span, spansOf } from "../spans.ts"
import { ipamParts, memberOf } from "./configuration.ts"
import type { Saved } from "./steps.ts"

/** A network with ranges of host-local on one node, and the pool that is to take their place. */
export interface HostLocalScene {
  readonly network: string
  /** The file of the configuration, and its text now. */
  readonly file: string
  readonly text: string
  /** The configuration before the migration, once it has begun. */
  readonly saved?: Saved | undefined
  readonly poolName: string
  /** Where the file of the pool is, when that is not the default. */
  readonly poolDir?: string | undefined
  /** host-local's store of the network, as the agent knows it. */
  readonly directory: string
  readonly pool: Pool | undefined
  /** The records of the pool's blocks. */
  readonly blocks: readonly Block[]
  /** The blocks in the pool's file on this node. */
  readonly inFile: readonly string[]
  readonly owner: Owner
  readonly reservations: readonly { readonly address: string; readonly id: string; readonly ifName: string }[]
  /** The address that each range set has handed out last. */
  readonly cursors: readonly (string | undefined)[]
}

/** A range of host-local. */
export type Range = HostLocalConfig["rangeSets"][number][number]

/** The ranges of the one part of host-local, or why they cannot be used. */
export function readRanges({ network, directory: agents }: HostLocalScene, text: string): Range[] | string {
  const parts = ipamParts(text, "host-local")
  const [part] = parts
  if (!part || parts.length > 1) return `network "${network}" has host-local ${parts.length} times: one is expected`
  const capabilities = memberOf(part.plugin, "capabilities")
  if (isJsonObject(capabilities) && capabilities.ipRanges === true)
    return `network "${network}" takes ranges from its runtime ("capabilities": {"ipRanges": true}), and host-local refuses these beside a pool`
  const raw = { ...part.plugin, name: network, cniVersion: newestVersion }
  const { rangeSets, pool, directory } = parseHostLocalConfig(parseNetworkConfig(raw, { lenient: true }), {
    verb: "STATUS",
    args: "",
    raw,
  })
  if (pool) return `network "${network}" takes its addresses from pool "${pool.name}" already`
  if (directory !== agents)
    return `network "${network}" keeps its reservations in "${directory}", and the agent reads "${agents}": set its "dataDir"`
  const families = rangeSets.map((set) => set[0]?.start.family)
  if (new Set(families).size < families.length)
    return `network "${network}" has several range sets of one family, and a pool gives one address of each`
  return rangeSets.flat()
}

export function problemsOfPool({ network, poolName }: HostLocalScene, pool: Pool, ranges: readonly Range[]): string[] {
  const problems: string[] = []
  if (pool.network !== network)
    problems.push(`pool "${poolName}" is for network "${pool.network}", and this is "${network}"`)
  for (const range of ranges) {
    const span = spanOfRange(range)
    const found = pool.prefixes.find(({ prefix }) => spansOf(prefix).some((each) => covers(each, span)))
    const written = prefixesOf([span]).join(", ")
    const gateway = formatAddress(range.gateway)
    if (!found) problems.push(`${written} of range ${range.subnet} is not in pool "${poolName}"`)
    else if (found.gateway !== undefined && (found.gateway !== gateway || found.prefix !== range.subnet))
      problems.push(
        `containers have ${range.subnet} with gateway ${gateway}, and pool "${poolName}" has ${found.prefix} with gateway ${found.gateway}`,
      )
    else if (found.gateway === undefined && !isFirst(range, found))
      problems.push(
        `the gateway of range ${range.subnet} is ${gateway}, and a block's is its first address: give the pool the gateway`,
      )
  }
  return problems
}

/** Whether a range has the gateway that a block at its start has. */
function isFirst({ subnet, gateway }: Range, { blockLength }: PoolPrefix): boolean {
  return spansOf(subnet).some(
    ({ first }) => prefixOf(gateway, blockLength).first === first && gateway.value === first + 1n,
  )
}

/** The blocks that calls take addresses of which are under way: the block after the cursor of each set, and the one behind it. */
export function nextBlocks({ cursors }: HostLocalScene, pool: Pool, ranges: readonly Range[]): string[] {
  return ranges.flatMap((range, at) => {
    const poolPrefix = pool.prefixes.find(({ prefix }) =>
      spansOf(prefix).some((each) => covers(each, spanOfRange(range))),
    )
    if (!poolPrefix) return []
    const { family, first, last } = spanOfRange(range)
    const cursor = cursors
      .map((text) => text && parseAddress(text))
      .find((address) => address && address.family === family && address.value >= first && address.value < last)
    if (at > 0 && !cursor) return []
    const next = cursor ? cursor.value + 1n : first
    const block = prefixOf({ family, value: next }, poolPrefix.blockLength)
    const behind = block.last + 1n
    return [block, ...(behind <= last ? [prefixOf({ family, value: behind }, poolPrefix.blockLength)] : [])].map(
      formatPrefix,
    )
  })
}

/** The prefixes of a pool with other reserved addresses; `undefined` where nothing changes. */
export function withReserved(pool: Pool, change: (spans: Span[], prefix: string) => Span[]): PoolPrefix[] | undefined {
  const prefixes = pool.prefixes.map((each) => ({
    ...each,
    reserved: prefixesOf(change(each.reserved.flatMap(spansOf), each.prefix)),
  }))
  const isSame = prefixes.every(
    ({ reserved }, at) => reserved.join() === prefixesOf((pool.prefixes[at]?.reserved ?? []).flatMap(spansOf)).join(),
  )
  return isSame ? undefined : prefixes
}

export function spanOfRange({ start, end }: Range): Span {
  return { family: start.family, first: start.value, last: end.value }
}
