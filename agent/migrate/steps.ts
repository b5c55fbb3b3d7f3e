import type { ReservedChange } from "../pools.ts"
import type { Owner, Pool, PoolPrefix } from "../records.ts"
import { spansOf, without } from "../spans.ts"

/** One step of a migration, as a value: it is printed as it will be done. */
export type Step =
  /** Keeps the configuration as it was, for `--back`. */
  | { readonly do: "save"; readonly saved: Saved }
  /** Takes a block in this node's name. */
  | { readonly do: "claim"; readonly pool: string; readonly prefix: string; readonly why: string }
  /** Makes a pool. */
  | { readonly do: "register"; readonly pool: Pool }
  /** Changes the addresses of a pool that are never handed out. */
  | {
      readonly do: "reserve"
      readonly pool: string
      readonly before: readonly PoolPrefix[]
      readonly prefixes: readonly PoolPrefix[]
      readonly why: string
    }
  /** Waits until the agent has written these blocks to the pool's file on this node. */
  | { readonly do: "await"; readonly pool: string; readonly blocks: readonly string[] }
  /** Puts a configuration in the place of another. */
  | { readonly do: "write"; readonly file: string; readonly text: string; readonly why: string }
  /** Plans again: takes blocks in which calls that were under way have got addresses since, and ends where something stands in the way now. */
  | { readonly do: "look-again"; readonly what: string }
  /** Forgets the configuration that was kept. */
  | { readonly do: "forget"; readonly network: string }

/** A configuration as it was before its migration. */
export interface Saved {
  readonly network: string
  readonly file: string
  readonly text: string
  /** The addresses that another IPAM plugin had handed out, and that the pool keeps back for it. */
  readonly imported?: readonly string[]
}

/** What is to be done, and what stands in the way: with a problem nothing is done. */
export interface Plan {
  readonly steps: readonly Step[]
  readonly problems: readonly string[]
  /** What to know, and what to do by hand. */
  readonly notes: readonly string[]
}

/** All that a migration reads and changes. */
export interface World {
  /** Who this node is. */
  readonly owner: Owner
  readSaved(network: string): Saved | undefined
  /** On the disk when it returns. */
  save(saved: Saved): void
  forget(network: string): void
  /** The text of a file; `undefined` if the file does not exist. */
  readText(file: string): string | undefined
  /** Another file, fsync, rename, fsync of the directory. */
  writeText(file: string, text: string): void
  /** Claims a block by `create`. Throws where another node has it. */
  claim(pool: string, prefix: string): Promise<void>
  register(pool: Pool): Promise<unknown>
  /** Changes what a pool keeps back; what other nodes change in it at the same time stays. */
  reserve(pool: string, change: ReservedChange): Promise<void>
  /** Throws when the blocks are not in the file after a while. */
  awaitBlocks(pool: string, blocks: readonly string[]): Promise<void>
}

/** A step in words. */
export function describeStep(step: Step): string {
  switch (step.do) {
    case "save":
      return `keep "${step.saved.file}" as it is now, for --back`
    case "claim":
      return `claim block ${step.prefix} of pool "${step.pool}" for this node: ${step.why}`
    case "register":
      return `make pool "${step.pool.name}": ${step.pool.prefixes.map(describePrefix).join("; ")}`
    case "reserve":
      return `have pool "${step.pool}" keep back ${step.prefixes.flatMap(({ reserved }) => reserved).join(", ") || "nothing"}: ${step.why}`
    case "await":
      return `wait until the agent has written ${step.blocks.join(", ")} to the file of pool "${step.pool}" on this node`
    case "write":
      return `write "${step.file}": ${step.why}`
    case "look-again":
      return `look again ${step.what}`
    case "forget":
      return `forget the configuration that was kept for network "${step.network}"`
  }
}

function describePrefix({ prefix, blockLength, gateway, reserved }: PoolPrefix): string {
  return [
    `${prefix} in blocks of /${blockLength}`,
    ...(gateway === undefined ? [] : [`gateway ${gateway}`]),
    ...(reserved.length === 0 ? [] : [`keeps back ${reserved.join(", ")}`]),
  ].join(", ")
}

/**
 * Does the steps one after the other, and tells each before it is done. A migration that ended between two steps is continued by
 * planning it again: a plan has the steps that are left. `planAgain` is what "look-again" asks.
 */
export async function carryOut(
  steps: readonly Step[],
  world: World,
  { tell, planAgain }: { tell: (step: Step) => void; planAgain: () => Promise<Plan> },
): Promise<void> {
  for (const step of steps) {
    tell(step)
    if (step.do !== "look-again") await perform(step, world)
    else {
      const { steps: left, problems } = await planAgain()
      if (problems.length > 0) throw new Error(problems.join("\n"))
      for (const claim of left.filter((each) => each.do === "claim")) {
        tell(claim)
        await perform(claim, world)
      }
    }
  }
}

async function perform(step: Step, world: World): Promise<void> {
  if (step.do === "save") world.save(step.saved)
  else if (step.do === "claim") await world.claim(step.pool, step.prefix)
  else if (step.do === "register") await world.register(step.pool)
  else if (step.do === "reserve") await world.reserve(step.pool, changeBetween(step.before, step.prefixes))
  else if (step.do === "await") await world.awaitBlocks(step.pool, step.blocks)
  else if (step.do === "write") world.writeText(step.file, step.text)
  else if (step.do === "forget") world.forget(step.network)
}

function changeBetween(before: readonly PoolPrefix[], after: readonly PoolPrefix[]): ReservedChange {
  const [was, is] = [before, after].map((prefixes) => prefixes.flatMap(({ reserved }) => reserved.flatMap(spansOf)))
  return { add: without(is ?? [], was ?? []), remove: without(was ?? [], is ?? []) }
}
