import { fixedDigest } from "../../ipam/host-local/main.ts"
import { Blocks } from "../blocks.ts"
import { type FixedAddress, keyOf, type Pool } from "../records.ts"
import type { PodName, Stored } from "../store.ts"
import { type Agent, isOwn, ownerOf, say } from "./agent.ts"
import { type Held, readHeld, writeHeld } from "./held.ts"
import type { Answer } from "./resend.ts"
import type { LogEvent } from "./surroundings.ts"

/**
 * The pods of this node, by the names of those that are bound to it. "named": the store knows no pods, and the operator names the holder. "unknown":
 * the store has not told them yet.
 */
export type Bound = readonly PodName[] | "named" | "unknown"

/** So many pods of other nodes are in a file by name, and so many more by digest: each ADD reads it. */
const NAMED_MAX = 1_000
const DIGESTS_MAX = 30_000

/**
 * The fixed addresses of a pool whose pods are bound to this node: the record names the holder, then the file has the addresses. They are
 * given up when the pod is bound here no longer and no container has them: out of the file, proof under host-local's lock, then the
 * record. All other pods with fixed addresses are in the file without them: one that is attached before this agent has seen or done its part
 * waits, and does not get another address.
 */
export async function passFixed(agent: Agent, pool: Pool, bound: Bound): Promise<void> {
  const held = readHeld(agent.surroundings.node, pool.name)
  const { missing, leaving, faults, ...next } = planFixed(agent, pool, bound, held.fixed)
  sayOnce(agent, pool, faults)
  writeHeld(agent, pool, { ...held, ...next })
  for (const stored of missing) await add(agent, pool, stored)
  for (const stored of leaving) await giveUp(agent, pool, stored)
}

/** Has the file name all pods with fixed addresses before it gets a block: a pod that comes first waits, too. */
export function nameFixed(agent: Agent, pool: Pool, held: Held, bound: Bound): Held {
  const { fixed, fixedElsewhere } = planFixed(agent, pool, bound, held.fixed)
  const next = { ...held, fixed, fixedElsewhere }
  if (Object.keys(fixed).length > 0) writeHeld(agent, pool, next)
  return next
}

interface FixedPlan extends Required<Pick<Held, "fixed" | "fixedElsewhere">> {
  /** Those of pods here that the file has not got yet, and those of this node whose pods are here no longer. */
  readonly missing: readonly Stored<"fixed">[]
  readonly leaving: readonly Stored<"fixed">[]
  readonly faults: readonly Said[]
}

/** What the file is to say, when `inForce` is what it says now. */
function planFixed(agent: Agent, pool: Pool, bound: Bound, inForce: Held["fixed"]): FixedPlan {
  const fixed: Record<string, readonly string[]> = {}
  const elsewhere: Stored<"fixed">[] = []
  const missing: Stored<"fixed">[] = []
  const leaving: Stored<"fixed">[] = []
  const faults: Said[] = []
  for (const stored of agent.view.records("fixed").values()) {
    const { key, value } = stored
    if (value.pool !== pool.name) continue
    const fault = faultOf(pool, value)
    const isMine = isOwn(agent, value.holder)
    const isInForce = isMine && inForce[key]?.join() === value.addresses.join()
    if (!(bound === "unknown" ? isInForce : isHere(value, bound, isMine))) {
      if (fault === undefined) elsewhere.push(stored)
      if (isMine && bound !== "unknown") leaving.push(stored)
    } else if (fault !== undefined)
      faults.push({ level: "error", message: `Cannot use the fixed address of "${key}": ${fault}` })
    else if (value.holder && !isMine) {
      fixed[key] = []
      faults.push({ level: "info", message: waitsFor(key, value.holder.name) })
    } else if (isInForce) fixed[key] = value.addresses
    else {
      fixed[key] = []
      missing.push(stored)
    }
  }
  for (const { key } of elsewhere.slice(0, NAMED_MAX)) fixed[key] = []
  const more = elsewhere.slice(NAMED_MAX, NAMED_MAX + DIGESTS_MAX)
  if (elsewhere.length > NAMED_MAX + DIGESTS_MAX) faults.push({ level: "error", message: tooMany(pool) })
  return { fixed, fixedElsewhere: more.map(digestOf).sort().join(""), missing, leaving, faults }
}

function isHere({ namespace, pod }: FixedAddress, bound: Exclude<Bound, "unknown">, isMine: boolean): boolean {
  return bound === "named" ? isMine : bound.some((each) => each.namespace === namespace && each.pod === pod)
}

const digests = new WeakMap<Stored<"fixed">, string>()

function digestOf(stored: Stored<"fixed">): string {
  const known = digests.get(stored) ?? fixedDigest(stored.key)
  digests.set(stored, known)
  return known
}

function tooMany({ name }: Pool): string {
  const most = NAMED_MAX + DIGESTS_MAX
  return `Pool "${name}" has fixed addresses of more than ${most} pods of other nodes: one that comes here may get another address. Use several pools`
}

type Said = Pick<LogEvent, "level" | "message">

/** Its node gives it up, or an operator says that the node is gone. */
function waitsFor(key: string, node: string): string {
  const remedy = `when that node is off for good: cni-agent ipam release-node ${node} --now`
  return `The fixed address of "${key}" is still that of node "${node}", and its pod waits here; ${remedy}`
}

/** Says what is wrong when it is another than at the last pass: there may be ten in a second. */
function sayOnce(agent: Agent, pool: Pool, faults: readonly Said[]): void {
  const said = faults.map(({ message }) => message).join("\n")
  if (agent.fixedFaults.get(pool.name) === said) return
  agent.fixedFaults.set(pool.name, said)
  for (const { level, message } of faults) say(agent, level, message, { pool: pool.name })
}

/** Why the addresses of a record cannot be handed out: each lies in a prefix of the pool, where no block is ever claimed. */
function faultOf(pool: Pool, { addresses }: FixedAddress): string | undefined {
  for (const address of addresses) {
    const prefix = pool.prefixes.find((each) => Blocks.of(each).blockOf(address) !== undefined)
    if (!prefix) return `${address} is not an address of pool "${pool.name}"`
    if (prefix.gateway === undefined) return `${prefix.prefix} has no gateway that all nodes share`
    const blocks = Blocks.of(prefix)
    if (blocks.isUsable(blocks.blockOf(address) ?? ""))
      return `${address} lies in no reserved prefix of pool "${pool.name}"`
  }
  return undefined
}

/** Puts addresses in the file that it has not got: those that no node holds, and those of which the record says already that they are ours. */
async function add(agent: Agent, pool: Pool, stored: Stored<"fixed">): Promise<void> {
  const answer = await take(agent, stored)
  if (!answer) return
  await agent.requireSameStore()
  const held = readHeld(agent.surroundings.node, pool.name)
  const fixed = { ...held.fixed, [stored.key]: stored.value.addresses }
  writeHeld(agent, pool, { ...held, fixed }, { what: stored.key, sentMs: answer.sentMs })
}

/** Makes this node the holder. The record gets a new nonce in any case: a request to give it up that is still on its way no longer fits then. */
async function take(agent: Agent, stored: Stored<"fixed">): Promise<Answer<"fixed"> | undefined> {
  const nonce = agent.surroundings.randomHex(16)
  const answer = await agent.resend.replace(stored, { ...stored.value, holder: ownerOf(agent), nonce })
  if (answer) agent.view.put(answer.stored)
  return answer?.stored.value.nonce === nonce ? answer : undefined
}

/** After the addresses have left the file. */
async function giveUp(agent: Agent, pool: Pool, stored: Stored<"fixed">): Promise<void> {
  const { node } = agent.surroundings
  const isUsed = (address: string) =>
    node.reservationsIn(pool.network, `${address}/${address.includes(":") ? 128 : 32}`).length > 0
  if (stored.value.addresses.some(isUsed)) return // the next change of the reservations brings us here again
  const { holder: _, ...rest } = stored.value
  const made = await agent.resend.replace(stored, { ...rest, nonce: agent.surroundings.randomHex(16) })
  if (made) agent.view.put(made.stored)
  say(agent, "info", `The fixed address of "${keyOf.fixed(stored.value)}" is free for other nodes`, { pool: pool.name })
}
