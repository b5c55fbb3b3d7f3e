import { AF_INET } from "../../pkg/types/mod.ts"
import { formatPrefix } from "../blocks.ts"
import { isSameOwner, type Pool, type PoolPrefix } from "../records.ts"
import { covers, meets, prefixOf, type Span, spansOf, within, without } from "../spans.ts"
import { withIpam, withoutKeys } from "./configuration.ts"
import { type HostLocalScene, nextBlocks, problemsOfPool, readRanges, spanOfRange, withReserved } from "./ranges.ts"
import type { Plan, Step } from "./steps.ts"

const RANGES_FREE = "the ranges of this node are free for blocks"
const rangeKeys = ["subnet", "rangeStart", "rangeEnd", "gateway", "ranges"]

/**
 * Plans the way from ranges to a pool. The blocks in which containers have addresses become this node's before the configuration is
 * changed: at no moment may another node hand out an address of theirs.
 */
export function planHostLocal(scene: HostLocalScene): Plan {
  const { network, file, text, saved, pool, poolName, owner } = scene
  const before = saved?.text ?? text
  const read = readRanges(scene, before)
  if (typeof read === "string") return refused(read)
  if (!pool) return refused(`there is no pool "${poolName}": make it by "cni-agent ipam pool create ${poolName}"`)
  const after = withPool(before, scene)
  const problems = [...problemsOfPool(scene, pool, read), ...problemsOfText(scene, before, after)]
  const held = heldBlocks(scene, pool)
  const ownerOf = new Map(scene.blocks.map((block) => [block.prefix, block.owner]))
  const isForeign = (prefix: string) => {
    const found = ownerOf.get(prefix)
    return found !== undefined && !isSameOwner(found, owner)
  }
  const kept: Span[] = []
  for (const { block, addresses, poolPrefix } of held) {
    if (!isForeign(block)) {
      if (poolPrefix.gateway === undefined) problems.push(...clashes(block, addresses))
      continue
    }
    const reserved = poolPrefix.reserved.flatMap(spansOf)
    const open = addresses.filter(({ span }) => !reserved.some((each) => covers(each, span)))
    kept.push(...addresses.map(({ span }) => span))
    if (open.length > 0)
      problems.push(
        `node "${ownerOf.get(block)?.name}" owns block ${block}, and ${namesOf(open)} here ${open.length > 1 ? "have addresses" : "has an address"} of it: remove what is here, or keep the address back in the pool`,
      )
  }
  const wanted = new Map(
    held.filter(({ block }) => !isForeign(block)).map((each) => [each.block, namesOf(each.addresses)]),
  )
  if (text === before)
    for (const block of nextBlocks(scene, pool, read))
      if (!isForeign(block) && !wanted.has(block)) wanted.set(block, "the next ADD takes an address of it")
  const claims = [...wanted].flatMap(([prefix, why]): Step[] =>
    ownerOf.has(prefix) ? [] : [{ do: "claim", pool: poolName, prefix, why }],
  )
  const missing = [...wanted.keys()].filter((block) => !scene.inFile.includes(block))
  const ranges = read.map(spanOfRange)
  const withFree = (free: Span[]) => withReserved(pool, (spans) => [...without(spans, free), ...within(kept, spans)])
  // Until the configuration is written, an ADD may take an address of any block in the ranges: no other node may claim one before.
  const isWritten = text === after
  const ofBlocks = isWritten ? undefined : withFree(within(ranges, [...wanted.keys()].flatMap(spansOf)))
  const ofRanges = withFree(ranges)
  const isAll = isSame(ofBlocks, ofRanges)
  const steps: Step[] = [
    ...(saved ? [] : [{ do: "save" as const, saved: { network, file, text } }]),
    ...claims,
    ...reserveStep(pool, ofBlocks, isAll ? RANGES_FREE : "these blocks can be used"),
    ...(missing.length > 0 ? [{ do: "await" as const, pool: poolName, blocks: missing }] : []),
    ...(isWritten
      ? []
      : [
          {
            do: "write" as const,
            file,
            text: after,
            why: `host-local takes addresses of pool "${poolName}" in place of ranges`,
          },
          {
            do: "look-again" as const,
            what: "at the reservations, and claim the blocks of addresses that were handed out since",
          },
        ]),
    ...(isAll ? [] : reserveStep(pool, ofRanges, RANGES_FREE)),
  ]
  const notes =
    kept.length === 0
      ? []
      : [
          "other nodes own blocks in which containers of this node have addresses: these stay kept back; run this again when the containers have ended",
        ]
  return { steps, problems, notes }
}

/** Plans the way back: the ranges as they were. No other node may have a block of them by then. */
export function planHostLocalBack(scene: HostLocalScene): Plan {
  const { network, file, text, saved, pool, owner } = scene
  if (!saved)
    return refused(`nothing is kept of network "${network}": its migration has not begun here, or was taken back`)
  const read = readRanges(scene, saved.text)
  if (typeof read === "string") return refused(read)
  const problems = problemsOfText(scene, saved.text, withPool(saved.text, scene))
  for (const { prefix, owner: other } of scene.blocks) {
    if (
      isSameOwner(other, owner) ||
      !read.some((range) => spansOf(prefix).some((span) => meets(span, spanOfRange(range))))
    )
      continue
    problems.push(`node "${other.name}" owns block ${prefix}, which is in the ranges of network "${network}"`)
  }
  const prefixes =
    pool && withReserved(pool, (spans, prefix) => [...spans, ...within(read.map(spanOfRange), spansOf(prefix))])
  const steps: Step[] = [
    ...(pool ? reserveStep(pool, prefixes, "no node claims blocks in the ranges of this node") : []),
    ...(text === saved.text
      ? []
      : [
          // A block that was claimed before the ranges were reserved is in the store by now, and a later one is given back.
          { do: "look-again" as const, what: "at the blocks: no other node may own one in the ranges" },
          { do: "write" as const, file, text: saved.text, why: "the ranges are as they were" },
        ]),
    { do: "forget", network },
  ]
  const outside = scene.reservations.filter(
    ({ address }) => !read.some((range) => spansOf(address).some((span) => covers(spanOfRange(range), span))),
  )
  const notes = outside.map(
    ({ address, id }) => `container ${id} keeps ${address}, which is in no range: let the agent run until it has ended`,
  )
  return { steps, problems, notes }
}

function reserveStep(pool: Pool, prefixes: readonly PoolPrefix[] | undefined, why: string): Step[] {
  return prefixes ? [{ do: "reserve", pool: pool.name, before: pool.prefixes, prefixes, why }] : []
}

function isSame(a: readonly PoolPrefix[] | undefined, b: readonly PoolPrefix[] | undefined): boolean {
  return JSON.stringify(a) === JSON.stringify(b)
}

function withPool(text: string, { poolName, poolDir }: HostLocalScene): string {
  return withIpam(text, "host-local", (ipam) => ({
    ...withoutKeys(ipam, rangeKeys),
    pool: poolName,
    ...(poolDir === undefined ? {} : { poolDir }),
  }))
}

function problemsOfText({ file, text }: HostLocalScene, before: string, after: string): string[] {
  if (text === before || text === after) return []
  return [`"${file}" was changed since its migration began: put it back as it was, or as this command has written it`]
}

interface Held {
  readonly block: string
  readonly poolPrefix: PoolPrefix
  readonly addresses: readonly { readonly span: Span; readonly name: string }[]
}

/** The blocks of a pool in which containers of this node have addresses. */
function heldBlocks({ reservations }: HostLocalScene, pool: Pool): Held[] {
  const found = new Map<string, { block: string; poolPrefix: PoolPrefix; addresses: { span: Span; name: string }[] }>()
  for (const { address, id, ifName } of reservations) {
    for (const span of spansOf(address)) {
      const poolPrefix = pool.prefixes.find(({ prefix }) => spansOf(prefix).some((each) => covers(each, span)))
      if (!poolPrefix) continue
      const block = formatPrefix(prefixOf({ family: span.family, value: span.first }, poolPrefix.blockLength))
      const name = id === "" ? address : `${address} of container ${id}${ifName === "" ? "" : `, interface ${ifName}`}`
      found.getOrInsert(block, { block, poolPrefix, addresses: [] }).addresses.push({ span, name })
    }
  }
  return [...found.values()]
}

/** Addresses of containers that are the network, gateway or broadcast address of a block that is a subnet of its own. */
function clashes(block: string, addresses: Held["addresses"]): string[] {
  return spansOf(block).flatMap(({ first, last, family }) => {
    const own = new Map([
      [first, "network address"],
      [first + 1n, "gateway"],
      ...(family === AF_INET ? [[last, "broadcast address"] as const] : []),
    ])
    return addresses.flatMap(({ span, name }) => {
      const what = own.get(span.first)
      return what === undefined
        ? []
        : [
            `${name} is the ${what} of block ${block}: remove that container, or give the pool longer blocks or a gateway`,
          ]
    })
  })
}

function namesOf(addresses: Held["addresses"]): string {
  const [first, ...more] = addresses
  return `${first?.name ?? ""}${more.length === 0 ? "" : ` and ${more.length} more`}`
}

function refused(problem: string): Plan {
  return { steps: [], problems: [problem], notes: [] }
}
