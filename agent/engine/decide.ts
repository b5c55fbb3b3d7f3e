/** What an agent decides by numbers alone. */

/** One block that a node owns, and how much of it is used. */
export interface Holding {
  readonly block: string
  readonly state: "owned" | "draining"
  readonly capacity: bigint
  readonly used: bigint
}

/** What other nodes wait for, and whether a container of this node has asked for an address in vain. */
export interface Demand {
  readonly others: "none" | "some" | "urgent"
  /** A container has asked for an address while there was none. */
  readonly isOwn: boolean
}

const LOW_MIN = 8n

/** So many addresses a node keeps in hand: a quarter of what it owns, and at least 8. */
function reserveOf(capacity: bigint): bigint {
  const quarter = capacity / 4n
  return quarter > LOW_MIN ? quarter : LOW_MIN
}

function sumsOf(holdings: readonly Holding[]): { capacity: bigint; free: bigint } {
  const owned = holdings.filter(({ state }) => state === "owned")
  const capacity = owned.reduce((sum, each) => sum + each.capacity, 0n)
  const used = owned.reduce((sum, each) => sum + each.used, 0n)
  return { capacity, free: used > capacity ? 0n : capacity - used }
}

/** The addresses that a node can hand out. */
export function freeOf(holdings: readonly Holding[]): bigint {
  return sumsOf(holdings).free
}

/** Whether a node needs one more block. While other nodes have none to hand out, it takes one only for a container that waits. */
export function needsBlock(holdings: readonly Holding[], demand: Demand): boolean {
  const { capacity, free } = sumsOf(holdings)
  if (free >= reserveOf(capacity)) return false
  return demand.others !== "urgent" || (free === 0n && demand.isOwn)
}

/**
 * The empty block that a node gives back, if there is one that it can do without: twice the addresses that it keeps in hand stay free. For
 * nodes that wait it keeps just as many; for one whose containers wait it gives what its own containers do not ask for.
 */
export function blockToGive(holdings: readonly Holding[], demand: Demand): string | undefined {
  const empty = holdings.findLast(({ state, used }) => state === "owned" && used === 0n)
  if (!empty) return undefined
  const { capacity, free } = sumsOf(holdings.filter((each) => each !== empty))
  const isSpare =
    free > 2n * reserveOf(capacity) ||
    (demand.others !== "none" && free >= reserveOf(capacity)) ||
    (demand.others === "urgent" && (free > 0n || !demand.isOwn))
  return isSpare ? empty.block : undefined
}

/** Why a sweep must not believe that nodes are gone; `undefined` where it may. `owners` are all known ones, `gone` those that are no members. */
export function brakeOf(members: number, owners: number, gone: number): string | undefined {
  if (members === 0) return "the store names no node at all"
  if (gone > 0 && gone >= owners) return `all ${owners} owners of blocks are gone`
  return gone > 1 && gone * 10 > owners ? `${gone} of ${owners} owners of blocks are gone, more than 10 %` : undefined
}
