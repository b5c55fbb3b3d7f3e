import { isPlain, parseCidr } from "../pkg/types/mod.ts"
import { Blocks, formatPrefix, liesIn, overlaps, type Prefix, parsePrefix, toPrefix } from "./blocks.ts"
import { keyOf, type Pool, type PoolPrefix, type Registry } from "./records.ts"
import { prefixesOf, type Span, spansOf, within, without } from "./spans.ts"
import { type Store, StoreError } from "./store.ts"

/** A change of the pools that is refused; the message says which pool and why. */
export class PoolError extends Error {
  override readonly name = "PoolError"
}

/** How often a change of the registry is tried again because another program changed it, or gave no answer. */
const ATTEMPTS = 20

/** Why a pool cannot be; `undefined` for one that can. */
export function faultOf(pool: Pool): string | undefined {
  const { name, network, prefixes, quarantineS, routes } = pool
  if (name === "" || !isPlain(name, "_.-") || name.startsWith("."))
    return "its name has other characters than letters, digits, '_', '.' and '-'"
  if (network === "" || !isPlain(network, "_.-")) return `"${network}" is not the name of a network`
  if (!Number.isSafeInteger(quarantineS) || quarantineS < 0) return `${quarantineS} is not a number of seconds`
  const wrong = routes.find(({ dst }) => !parseCidr(dst))
  if (wrong) return `the route to "${wrong.dst}" has no network prefix`
  if (prefixes.length === 0) return "it has no prefix"
  const faults = prefixes.flatMap((prefix) => prefixFault(prefix) ?? [])
  if (faults.length > 0) return faults[0]
  const families = new Set(prefixes.map(({ prefix }) => toPrefix(prefix).family))
  return families.size < prefixes.length
    ? "it has two prefixes of one family: a container gets one address of each family"
    : undefined
}

/** Addresses that are no container's, by what they are. */
const unusable = [
  ["0.0.0.0/8", "this network"],
  ["127.0.0.0/8", "loopback"],
  ["224.0.0.0/4", "multicast"],
  ["::/80", "loopback, and IPv4 in IPv6"],
  ["fe80::/10", "link-local"],
  ["ff00::/8", "multicast"],
] as const

function prefixFault({ prefix: text, blockLength, gateway, reserved }: PoolPrefix): string | undefined {
  const prefix = parsePrefix(text)
  if (!prefix || formatPrefix(prefix) !== text) return `"${text}" is not a network prefix in its canonical form`
  const special = unusable.find(([each]) => overlaps(toPrefix(each), prefix))
  if (special) return `${text} has addresses of ${special[0]} (${special[1]}), which are no container's`
  const longest = text.includes(":") ? 126 : 30
  if (!Number.isInteger(blockLength) || blockLength < prefix.length || blockLength > longest) {
    return `blocks of ${text} have a prefix length from ${prefix.length} to ${longest}, not ${blockLength}`
  }
  const isInside = (inner: Prefix | undefined) => inner !== undefined && liesIn(inner, prefix)
  if (gateway !== undefined && (gateway.includes("/") || !isInside(parsePrefix(gateway)))) {
    return `the gateway ${gateway} is not an address of ${text}`
  }
  const outside = reserved.find((each) => !isInside(parsePrefix(each)))
  if (outside !== undefined) return `the reserved "${outside}" is not a prefix in ${text}`
  return Blocks.of({ prefix: text, blockLength, ...(gateway !== undefined && { gateway }), reserved }).claimable === 0n
    ? `all blocks of ${text} are reserved`
    : undefined
}

/** What `putPool` has done. */
export type Put = "made" | "changed" | "unchanged"

/**
 * The registry with a pool added, or changed in what may change: all but prefixes, lengths of blocks, gateways and network. One that is being
 * removed is refused, or kept where `isKept`. Throws `PoolError`.
 */
function withPool(registry: Registry, pool: Pool, isKept: boolean): Registry {
  const refuse = (reason: string) => new PoolError(`Cannot create pool "${pool.name}": ${reason}`)
  const fault = faultOf(pool)
  if (fault !== undefined) throw refuse(fault)
  const known = poolIn(registry, pool.name)
  if (known?.isRemoved && !isKept) throw refuse("a pool of this name is being removed")
  if (known && fixedPart(known) !== fixedPart(pool)) {
    throw refuse(
      "there is one of this name with other prefixes, lengths of blocks, gateways or another network, which never change",
    )
  }
  for (const other of Object.values(registry.pools)) {
    if (other.name === pool.name) continue
    const both = overlapOf(pool, other)
    if (both) throw refuse(`${both[0]} overlaps with ${both[1]} of pool "${other.name}"`)
  }
  return { pools: { ...registry.pools, [pool.name]: pool } }
}

/** The pool of a name; `undefined` also for names such as "constructor", which every object has. */
function poolIn({ pools }: Registry, name: string): Pool | undefined {
  return Object.hasOwn(pools, name) ? pools[name] : undefined
}

function fixedPart({ prefixes, network }: Pool): string {
  const parts = prefixes.map(({ prefix, blockLength, gateway }) => `${prefix} ${blockLength} ${gateway ?? ""}`)
  return JSON.stringify([network, ...parts.sort()])
}

function overlapOf(a: Pool, b: Pool): readonly [string, string] | undefined {
  for (const one of a.prefixes)
    for (const two of b.prefixes)
      if (overlaps(toPrefix(one.prefix), toPrefix(two.prefix))) return [one.prefix, two.prefix]
  return undefined
}

/** Creates a pool, or changes what may change in one. With `isKept` one that is being removed stays. Throws `PoolError`, `StoreError`. */
export async function putPool(store: Store, pool: Pool, { isKept = false } = {}): Promise<Put> {
  let put: Put = "unchanged"
  await changeRegistry(store, (registry) => {
    const after = withPool(registry, pool, isKept)
    const [is, was] = [after, registry].map((each) => JSON.stringify(poolIn(each, pool.name)))
    if (is !== was) put = was === undefined ? "made" : "changed"
    return after
  })
  return put
}

/** A change of what a pool keeps back: addresses that are to be kept back by it, and those that are free again. */
export interface ReservedChange {
  readonly add: readonly Span[]
  readonly remove: readonly Span[]
}

/**
 * Changes what a pool keeps back, by compare-and-swap: a change that another program makes at the same time stays. Nothing changes where there is
 * no such pool. Throws `PoolError`, `StoreError`.
 */
export async function changeReserved(store: Store, name: string, { add, remove }: ReservedChange): Promise<void> {
  await changeRegistry(store, (registry) => {
    const pool = registry.pools[name]
    if (!pool) return registry
    const prefixes = pool.prefixes.map((each) => {
      const kept = without(each.reserved.flatMap(spansOf), remove)
      return { ...each, reserved: prefixesOf([...kept, ...within(add, spansOf(each.prefix))]) }
    })
    return withPool(registry, { ...pool, prefixes }, true)
  })
}

/**
 * Removes a pool: it is marked first, and from then on no node claims a block of it. It goes when no block is left; returns whether it has
 * gone, with the nodes that still own blocks. Call it again until it has. Throws `PoolError` where there is no such pool.
 */
export async function removePool(store: Store, name: string): Promise<{ isGone: boolean; owners: readonly string[] }> {
  await changeRegistry(store, (registry) => {
    const { pools } = registry
    const pool = poolIn(registry, name)
    if (!pool) throw new PoolError(`Cannot remove pool "${name}": there is no such pool`)
    return { pools: { ...pools, [name]: { ...pool, isRemoved: true } } }
  })
  // A node that has claimed a block looks at the registry again before it uses it: it has seen the mark, or is in this list.
  const blocks = (await store.list("block")).filter(({ value }) => value.pool === name)
  const fixed = (await store.list("fixed")).filter(({ value }) => value.pool === name && value.holder)
  const owners = [
    ...blocks.map(({ value }) => value.owner.name),
    ...fixed.flatMap(({ value }) => value.holder?.name ?? []),
  ]
  if (owners.length > 0) return { isGone: false, owners: [...new Set(owners)].sort() }
  await changeRegistry(store, ({ pools }) => {
    const { [name]: removed, ...rest } = pools
    return { pools: removed?.isRemoved ? rest : pools } // a second attempt may find that it was created anew
  })
  return { isGone: true, owners: [] }
}

/** All pools, those that are being removed included. */
export async function listPools(store: Store): Promise<readonly Pool[]> {
  return Object.values((await store.find("registry", keyOf.registry()))?.value.pools ?? {})
}

/** Changes the registry by compare-and-swap. A lost answer is no harm: what was changed is looked at again. */
async function changeRegistry(store: Store, change: (registry: Registry) => Registry): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      const stored = await store.find("registry", keyOf.registry())
      const before = stored?.value ?? { pools: {} }
      const after = change(before)
      if (JSON.stringify(after) === JSON.stringify(before) && stored) return
      const made = stored ? await store.replace(stored, after) : await store.create("registry", keyOf.registry(), after)
      if (made) return
    } catch (error) {
      if (!(error instanceof StoreError && error.outcome === "unknown") || attempt === ATTEMPTS) throw error
    }
    if (attempt === ATTEMPTS) throw new PoolError("Cannot change the pools: other programs change them all the time")
  }
}
