import { messageOf } from "../../../pkg/types/mod.ts"
import type { Surroundings } from "../../engine/surroundings.ts"
import { putPool } from "../../pools.ts"
import type { Pool, PoolPrefix } from "../../records.ts"
import { type Store, StoreError } from "../../store.ts"
import { type ApiClient, refusal } from "./client.ts"
import { followObjects } from "./follow.ts"
import { type ApiObject, poolResource } from "./objects.ts"

/** Puts a pool into the registry, or brings that of this name up to date. Throws where the pool cannot be used, such as for an overlap. */
export type RegisterPool = (pool: Pool) => Promise<unknown>

/** The specification of a `Pool` object, as `deploy/cluster/crds.yaml` has it. */
interface PoolSpec {
  readonly prefixes: readonly (Omit<PoolPrefix, "blockLength" | "reserved"> & Partial<PoolPrefix>)[]
  readonly routes?: Pool["routes"]
  readonly network?: string
  readonly quarantineSeconds?: number
  readonly routing?: Pool["routing"]
}

/** What an agent writes into a `Pool` object. */
export interface PoolState {
  readonly state: "Registered" | "Refused"
  /** Why it was refused; "" for a registered one. */
  readonly reason: string
  /** The generation of the specification that this is said of. */
  readonly observedGeneration: number
}

/** All agents see a new pool at once, and one is enough: each waits for up to this long, and looks whether another was faster. */
const jitterMs = 2000

/** The pool that an object asks for, with the defaults of what it leaves out. */
export function poolOf({ metadata: { name }, spec }: ApiObject): Pool {
  const { prefixes, routes = [], network = name, quarantineSeconds = 86_400, routing = "none" } = spec as PoolSpec
  return {
    name,
    prefixes: prefixes.map(({ prefix, blockLength = prefix.includes(":") ? 122 : 26, reserved = [], ...rest }) => ({
      prefix,
      blockLength,
      ...rest,
      reserved,
    })),
    routes,
    network,
    quarantineS: quarantineSeconds,
    routing,
  }
}

/**
 * Follows `Pool` objects, registers each, and writes what has become of it into its status, until `signal` is aborted. A pool
 * that was refused is tried again when its object changes, and when an agent starts. A deleted object changes nothing: its
 * addresses are in use, and `cni-agent ipam pool rm` ends a pool. Throws `StoreError` where the store cannot be reached.
 */
export async function registerPools(client: ApiClient, register: RegisterPool, signal: AbortSignal): Promise<void> {
  const newest = new Map<string, ApiObject>()
  const waiting = new Set<string>()
  const ended = new AbortController()
  const failed = Promise.withResolvers<never>()
  const take = async (name: string) => {
    await client.wait(Math.random() * jitterMs, ended.signal)
    waiting.delete(name)
    const object = newest.get(name)
    if (object && !ended.signal.aborted) await settle(client, object, register)
  }
  const follow = async () => {
    for await (const change of followObjects(client, { resource: poolResource }, signal)) {
      const objects = change.type === "all" ? change.objects : [change.object]
      if (change.type === "all") newest.clear()
      for (const object of objects) {
        const { name } = object.metadata
        if (change.type === "removed") newest.delete(name)
        else newest.set(name, object)
        if (waiting.has(name) || !newest.has(name) || (change.type === "put" && isSettled(object))) continue
        waiting.add(name)
        take(name).catch(failed.reject)
      }
    }
  }
  try {
    await Promise.race([follow(), failed.promise])
  } finally {
    ended.abort()
  }
}

/** Whether the status says that this very specification is registered. */
function isSettled({ metadata: { generation }, status }: ApiObject): boolean {
  const { state, observedGeneration } = (status ?? {}) as Partial<PoolState>
  return state === "Registered" && observedGeneration === generation
}

/** Registers the pool of an object, and writes its status when that says something else. */
async function settle(client: ApiClient, object: ApiObject, register: RegisterPool): Promise<void> {
  const state = await outcomeOf(object, register)
  if (Bun.deepEquals(object.status, state)) return
  const { name } = object.metadata
  const path = `${poolResource.path}/${name}/status`
  const request = {
    what: `write the status of pool "${name}"`,
    method: "PUT",
    path,
    body: { ...object, status: state },
  } as const
  const answer = await client.call(request)
  // Another agent was faster, or the object has changed: the watch tells.
  if (answer.status >= 300 && answer.status !== 409 && answer.status !== 404) throw refusal(request, answer)
}

async function outcomeOf(object: ApiObject, register: RegisterPool): Promise<PoolState> {
  const observedGeneration = object.metadata.generation ?? 0
  try {
    await register(poolOf(object))
    return { state: "Registered", reason: "", observedGeneration }
  } catch (error) {
    if (error instanceof StoreError) throw error // nothing is known about the pool
    return { state: "Refused", reason: messageOf(error), observedGeneration }
  }
}

/** A store that users write pools into. */
export interface PoolSource extends Store {
  registerPools(register: RegisterPool, signal: AbortSignal): Promise<void>
}

/** Between two attempts to reach the store: at first, and at most. */
const firstPauseMs = 1000
const longestPauseMs = 60_000

/** Registers the pools that users write until `signal` is aborted, and begins again after each failure of the store. */
export async function keepRegistering(
  store: PoolSource,
  { clock, log }: Pick<Surroundings, "clock" | "log">,
  signal: AbortSignal,
): Promise<void> {
  for (let pauseMs = firstPauseMs; !signal.aborted; pauseMs = Math.min(2 * pauseMs, longestPauseMs)) {
    const beganMs = clock.bootMs()
    try {
      await store.registerPools((pool) => putPool(store, pool), signal)
    } catch (error) {
      if (!(error instanceof StoreError)) throw error
      log({ level: "warning", message: `Cannot register pools: ${error.message}` })
      if (clock.bootMs() - beganMs > longestPauseMs) pauseMs = firstPauseMs
      await clock.sleep(pauseMs * (0.5 + Math.random()), signal)
    }
  }
}
