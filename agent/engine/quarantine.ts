import type { Owner, Pool } from "../records.ts"
import type { Stored } from "../store.ts"
import { type Agent, isOwn, ownerOf, say } from "./agent.ts"
import { brakeOf } from "./decide.ts"

/** A node is known by name and UID: one of the same name that was made anew is another. */
function idOf({ name, uid }: Owner): string {
  return `${name} ${uid}`
}

/**
 * Looks for blocks whose owners are gone. An owner is gone that is no member in two sweeps one after the other; its blocks get the state
 * "quarantined", by compare-and-swap, so that every agent may sweep. Nothing is done where too many look gone at once: the list of members
 * is what is wrong then.
 */
export class Sweep {
  readonly #agent: Agent
  #before: ReadonlySet<string> = new Set()
  /** Why the last sweep believed nothing. */
  refusal: string | undefined

  constructor(agent: Agent) {
    this.#agent = agent
  }

  /** One sweep. Throws `StoreError`. */
  async run(): Promise<void> {
    const members = await this.#agent.surroundings.store.members()
    const present = new Set(members.map(idOf))
    const owners = new Set(this.#records().map(({ value }) => idOf(value.owner)))
    owners.add(idOf(ownerOf(this.#agent)))
    const gone = new Set([...owners].filter((each) => !present.has(each)))
    const isSelfGone = gone.has(idOf(ownerOf(this.#agent))) ? "this node itself is no member" : undefined
    const refusal = brakeOf(members.length, owners.size, gone.size) ?? isSelfGone
    if (refusal !== undefined && refusal !== this.refusal)
      say(this.#agent, "error", `No block is quarantined: ${refusal}${isSelfGone ? "" : remedyFor(gone)}`)
    this.refusal = refusal
    const confirmed = new Set([...gone].filter((each) => this.#before.has(each)))
    this.#before = refusal === undefined ? gone : new Set()
    if (refusal === undefined) for (const stored of this.#records()) await this.#quarantine(stored, confirmed)
    if (refusal === undefined) await this.#dropWants(confirmed)
  }

  #records(): Stored<"block">[] {
    return [...this.#agent.view.records("block").values()].filter(({ value }) => value.state !== "quarantined")
  }

  async #quarantine(stored: Stored<"block">, gone: ReadonlySet<string>): Promise<void> {
    const { view, surroundings } = this.#agent
    const { owner, prefix, pool } = stored.value
    if (!gone.has(idOf(owner)) || isOwn(this.#agent, owner)) return
    const made = await surroundings.store.replace(stored, { ...stored.value, state: "quarantined" })
    if (!made) return // it was changed since: the watch brings it
    view.put(made)
    say(this.#agent, "warning", `Block ${prefix} of pool "${pool}" is in quarantine: node "${owner.name}" is gone`, {
      pool,
      block: prefix,
    })
  }

  async #dropWants(gone: ReadonlySet<string>): Promise<void> {
    const { view, surroundings } = this.#agent
    for (const want of view.records("want").values()) {
      if (gone.has(idOf(want.value.owner)) && (await surroundings.store.remove(want))) view.drop("want", want.key)
    }
  }
}

/** What an operator can do about nodes that are gone: too many for an agent to believe it. */
function remedyFor(gone: ReadonlySet<string>): string {
  const names = [...gone].map((id) => id.slice(0, id.indexOf(" "))).sort()
  const shown = names.length > SHOWN_MAX ? [...names.slice(0, SHOWN_MAX), `${names.length - SHOWN_MAX} more`] : names
  return ` (${shown.join(", ")}). "cni-agent ipam release-node NODE" takes back the blocks of one that is gone for good`
}

const SHOWN_MAX = 10

/**
 * Notes since when this agent has seen each version of a block in quarantine, by boot time; a changed version counts anew. Answers in
 * how many milliseconds the next one can be taken over.
 */
export function watchQuarantine({ view, memory, surroundings }: Agent, pools: readonly Pool[]): number | undefined {
  const now = surroundings.clock.bootMs()
  const quarantined: Record<string, { version: string; sinceMs: number }> = {}
  let next: number | undefined
  for (const { key, version, value } of view.records("block").values()) {
    if (value.state !== "quarantined") continue
    const seen = memory.content.quarantined[key]
    const entry = seen?.version === version ? seen : { version, sinceMs: now }
    quarantined[key] = entry
    const quarantineS = pools.find(({ name }) => name === value.pool)?.quarantineS
    if (quarantineS === undefined) continue
    const restMs = entry.sinceMs + quarantineS * 1000 - now
    if (restMs > 0 && (next === undefined || restMs < next)) next = restMs
  }
  memory.change({ quarantined })
  return next
}
