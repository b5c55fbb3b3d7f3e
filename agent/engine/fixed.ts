import { Blocks } from "../blocks.ts"
import { type FixedAddress, keyOf, type Pool } from "../records.ts"
import type { PodName, Stored } from "../store.ts"
import { type Agent, isOwn, ownerOf, say } from "./agent.ts"
import { readHeld, writeHeld } from "./held.ts"
import type { Answer } from "./resend.ts"
import type { LogEvent } from "./surroundings.ts"

/** So many pods of other nodes are in a file: each ADD reads it. */
const ELSEWHERE_MAX = 1000

/**
 * The fixed addresses of a pool whose pods are bound to this node: the record names the holder, then the file has the addresses. They are
 * given up when the pod is bound here no longer and no container has them: out of the file, proof under host-local's lock, then the
 * record. All other pods with fixed addresses are in the file without them: one that is attached before this agent has seen or done its part
 * waits, and does not get another address. `bound` are the pods of this node; `undefined` where the store knows none, and the operator names the holder.
 */
export async function passFixed(agent: Agent, pool: Pool, bound: readonly PodName[] | undefined): Promise<void> {
  const { node } = agent.surroundings
  const all = [...agent.view.records("fixed").values()].filter(({ value }) => value.pool === pool.name)
  const isHere = ({ namespace, pod, holder }: FixedAddress) =>
    bound ? bound.some((each) => each.namespace === namespace && each.pod === pod) : isOwn(agent, holder)
  const inForce = readHeld(node, pool.name).fixed
  const fixed: Record<string, readonly string[]> = {}
  const missing: Stored<"fixed">[] = []
  const faults: Said[] = []
  let elsewhere = 0
  for (const stored of all) {
    const fault = faultOf(pool, stored.value)
    const { holder } = stored.value
    if (!isHere(stored.value)) {
      if (fault === undefined && elsewhere++ < ELSEWHERE_MAX) fixed[stored.key] = []
    } else if (fault !== undefined)
      faults.push({ level: "error", message: `Cannot use the fixed address of "${stored.key}": ${fault}` })
    else if (holder && !isOwn(agent, holder)) {
      fixed[stored.key] = []
      faults.push({ level: "info", message: waitsFor(stored.key, holder.name) })
    } else if (isOwn(agent, stored.value.holder) && inForce[stored.key]?.join() === stored.value.addresses.join())
      fixed[stored.key] = stored.value.addresses
    else {
      fixed[stored.key] = []
      missing.push(stored)
    }
  }
  sayOnce(agent, pool, faults)
  writeHeld(agent, pool, { ...readHeld(node, pool.name), fixed })
  for (const stored of missing) await add(agent, pool, stored)
  for (const stored of all)
    if (isOwn(agent, stored.value.holder) && !isHere(stored.value)) await giveUp(agent, pool, stored)
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
