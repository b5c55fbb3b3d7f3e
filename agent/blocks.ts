import { formatAddress, parseAddress } from "../ipam/host-local/main.ts"
import { sha256 } from "../pkg/engine/mod.ts"
import { AF_INET, type Family } from "../pkg/types/mod.ts"
import type { PoolPrefix } from "./records.ts"

/**
 * The arithmetic of blocks. Nothing here counts the blocks of a pool one by one: a /48 with blocks of /80 has four thousand
 * million of them.
 */

/** A network prefix as numbers. */
export interface Prefix {
  readonly family: Family
  readonly first: bigint
  readonly last: bigint
  readonly length: number
}

/** A reserved prefix that is smaller than its block is written to pool files address by address, up to so many; a block with more is not claimed. */
const RESERVED_MAX = 256n

/** A block keeps back so many addresses besides: those of the gateway, the network and the broadcast. */
const KEPT_MAX = 3n

function bitsOf(family: Family): number {
  return family === AF_INET ? 32 : 128
}

/** Reads "10.64.0.0/16", or an address as the prefix of one; `undefined` for anything else, host bits included. */
export function parsePrefix(text: string): Prefix | undefined {
  const [, ip = "", digits] = /^([^/]*)(?:\/(0|[1-9][0-9]{0,2}))?$/.exec(text) ?? []
  const address = parseAddress(ip)
  if (!address) return undefined
  const { family, value: first } = address
  const length = digits === undefined ? bitsOf(family) : Number(digits)
  if (length > bitsOf(family)) return undefined
  const size = 1n << BigInt(bitsOf(family) - length)
  return first % size === 0n ? { family, first, last: first + size - 1n, length } : undefined
}

/** A prefix that was checked before. Throws `RangeError`. */
export function toPrefix(text: string): Prefix {
  const prefix = parsePrefix(text)
  if (!prefix) throw new RangeError(`"${text}" is not a network prefix`)
  return prefix
}

/** "10.64.3.0/26", in the one form that a prefix has. */
export function formatPrefix({ family, first, length }: Pick<Prefix, "family" | "first" | "length">): string {
  return `${formatAddress({ family, value: first })}/${length}`
}

/** Whether all of `inner` lies in `outer`. */
export function liesIn(inner: Prefix, outer: Prefix): boolean {
  return inner.family === outer.family && inner.first >= outer.first && inner.last <= outer.last
}

/** Whether two prefixes have addresses in common. */
export function overlaps(a: Prefix, b: Prefix): boolean {
  return liesIn(a, b) || liesIn(b, a)
}

/** The blocks of one prefix of a pool. */
export class Blocks {
  readonly #of: PoolPrefix
  readonly #whole: Prefix
  readonly #size: bigint
  readonly #reserved: readonly Prefix[]
  readonly #gateway: bigint | undefined
  /** Where a node begins to look for a free block. */
  readonly #startOf = remembered(
    (nodeName: string): bigint => BigInt(`0x${sha256(`${this.#of.prefix} ${nodeName}`).slice(0, 32)}`) % this.count,
  )

  /** The blocks of a prefix, made once for each. Throws `RangeError` for a prefix that `faultOf` of a pool would refuse. */
  static of(prefix: PoolPrefix): Blocks {
    const known = made.get(prefix)
    if (known) return known
    const blocks = new Blocks(prefix)
    made.set(prefix, blocks)
    return blocks
  }

  private constructor(of: PoolPrefix) {
    this.#of = of
    this.#whole = toPrefix(of.prefix)
    this.#size = 1n << BigInt(bitsOf(this.#whole.family) - of.blockLength)
    this.#reserved = outermost(of.reserved.map(toPrefix))
    this.#gateway = of.gateway === undefined ? undefined : toPrefix(of.gateway).first
  }

  /** The number of blocks, those in reserved prefixes included. */
  get count(): bigint {
    return 1n << BigInt(this.#of.blockLength - this.#whole.length)
  }

  /** The number of blocks that can be claimed. */
  get claimable(): bigint {
    let count = this.count
    const partly = new Map<bigint, bigint>() // index of a block to its reserved addresses
    for (const { first, last } of this.#reserved) {
      const size = last - first + 1n
      if (size >= this.#size) count -= size / this.#size
      else {
        const at = this.#indexOf(first)
        partly.set(at, (partly.get(at) ?? 0n) + size)
      }
    }
    for (const at of partly.keys()) if (!this.#isClaimable(at)) count--
    return count
  }

  /**
   * The blocks that a node may claim, in its order: from a place that its name tells, so that nodes which claim at the same time
   * choose different ones, on and around. Those that are taken are left out.
   */
  *candidates(nodeName: string, isTaken: (block: string) => boolean): Generator<string> {
    const start = this.#startOf(nodeName)
    for (const [from, to] of [
      [start, this.count],
      [0n, start],
    ] as const) {
      for (let at = from; at < to; ) {
        const after = this.#afterReserved(at)
        if (after > at) at = after
        else {
          const block = this.#block(at)
          if (!isTaken(block) && this.#isClaimable(at)) yield block
          at++
        }
      }
    }
  }

  /** The index of a block of this prefix, written in its one form; `undefined` for any other text. */
  readonly #at = remembered((block: string): bigint | undefined => {
    const parsed = parsePrefix(block)
    if (!parsed || parsed.length !== this.#of.blockLength || !liesIn(parsed, this.#whole)) return undefined
    // IPv4 has one form but for "::ffff:10.0.0.0", and is not written anew to be compared.
    const isNormal = parsed.family === AF_INET ? /^[\d.]+\//.test(block) : formatPrefix(parsed) === block
    return isNormal ? this.#indexOf(parsed.first) : undefined
  })

  /** Whether a text is a block of this prefix in its one form. */
  has(block: string): boolean {
    return this.#at(block) !== undefined
  }

  /** Whether addresses of a block may be handed out: it lies in no reserved prefix, and not too many of its addresses are reserved. */
  readonly isUsable = remembered((block: string): boolean => {
    const at = this.#at(block)
    return at !== undefined && this.#afterReserved(at) === at && this.#isClaimable(at)
  })

  /** The block of an address; `undefined` for one that is not of this prefix. */
  readonly blockOf = remembered((address: string): string | undefined => {
    const parsed = parseAddress(address)
    if (!parsed || parsed.family !== this.#whole.family) return undefined
    const { first, last } = this.#whole
    return parsed.value < first || parsed.value > last ? undefined : this.#block(this.#indexOf(parsed.value))
  })

  /** The addresses that a block hands out: all but those of `keptBackOf`, as host-local counts them. */
  readonly capacityOf = remembered((block: string): bigint => this.#size - BigInt(this.keptBackOf(block).size))

  /** The reserved addresses of a block, for its pool file. */
  readonly reservedIn = remembered((block: string): readonly string[] => {
    const { first, last, family } = toPrefix(block)
    const found: string[] = []
    for (const reserved of this.#reserved) {
      if (reserved.first < first || reserved.last > last || reserved.last - reserved.first >= RESERVED_MAX) continue
      for (let value = reserved.first; value <= reserved.last; value++) found.push(formatAddress({ family, value }))
    }
    return found
  })

  /** What is never handed out of a block: gateway, network and broadcast address, and what is reserved. */
  keptBackOf(block: string): ReadonlySet<bigint> {
    const { first, last, family } = toPrefix(block)
    const isShared = this.#gateway !== undefined
    const subnet = isShared ? this.#whole : { first, last }
    const kept = [this.#gateway ?? first + 1n, subnet.first, ...(family === AF_INET ? [subnet.last] : [])]
    const inside = new Set(kept.filter((value) => value >= first && value <= last))
    for (const reserved of this.#reserved) {
      if (reserved.first < first || reserved.last > last || reserved.last - reserved.first >= RESERVED_MAX) continue
      for (let value = reserved.first; value <= reserved.last; value++) inside.add(value)
    }
    return inside
  }

  #indexOf(value: bigint): bigint {
    return (value - this.#whole.first) / this.#size
  }

  readonly #block = remembered((at: bigint): string => {
    const { family, first } = this.#whole
    return formatPrefix({ family, first: first + at * this.#size, length: this.#of.blockLength })
  })

  /** The index of the block after the reserved prefix that block `at` lies in; `at` itself where it lies in none. */
  #afterReserved(at: bigint): bigint {
    const first = this.#whole.first + at * this.#size
    const over = this.#reserved.find((each) => each.first <= first && each.last >= first + this.#size - 1n)
    return over ? this.#indexOf(over.last) + 1n : at
  }

  /** Whether a block that lies in no reserved prefix has an address to hand out, and few enough that are reserved. */
  #isClaimable(at: bigint): boolean {
    const first = this.#whole.first + at * this.#size
    const last = first + this.#size - 1n
    const inside = this.#reserved.filter((each) => each.first >= first && each.last <= last)
    const reserved = inside.reduce((sum, each) => sum + each.last - each.first + 1n, 0n)
    if (reserved > RESERVED_MAX) return false
    return this.#size > KEPT_MAX + reserved || this.capacityOf(this.#block(at)) > 0n
  }
}

const made = new WeakMap<PoolPrefix, Blocks>()

/**
 * So many answers are kept of each question: an agent asks the same of each of its blocks and addresses in every pass, and of each block of the
 * cluster whenever it is asked for its status.
 */
const REMEMBERED_MAX = 32_768

/** The same function, which remembers what it has answered. */
function remembered<K, V>(answer: (of: K) => V): (of: K) => V {
  const known = new Map<K, V>()
  return (of) => {
    const found = known.get(of)
    if (found !== undefined || known.has(of)) return found as V
    if (known.size === REMEMBERED_MAX) known.clear()
    const value = answer(of)
    known.set(of, value)
    return value
  }
}

/** The prefixes that lie in no other of them. */
function outermost(prefixes: readonly Prefix[]): Prefix[] {
  const kept: Prefix[] = []
  for (const prefix of [...prefixes].sort((a, b) => a.length - b.length)) {
    if (!kept.some((each) => liesIn(prefix, each))) kept.push(prefix)
  }
  return kept
}
