import { Blocks } from "./blocks.ts"
import { Engine } from "./engine/engine.ts"
import { followPodCidrs, type PodCidrs } from "./engine/pod-cidrs.ts"
import type { NodeFiles, Surroundings } from "./engine/surroundings.ts"
import type { Change } from "./engine/view.ts"
import type { Kind } from "./records.ts"
import { RouteKeeper, type RouteKernel, type RouteSurroundings } from "./routes/keeper.ts"
import type { PoolStatus, PrefixStatus, Status } from "./status.ts"

/** What the process of an agent does, and what it tells of it. */
export interface Work {
  /** Works until `signal` is aborted. */
  run(signal: AbortSignal): Promise<void>
  status(): Status
  /** What of the files of pools is not written yet. */
  missing(): readonly string[]
  /** Has it trust a store again that went backwards. Throws where there is nothing to trust. */
  acceptStore(): void
}

/**
 * After so many changes the garbage that they leave is collected. Beside 5,000 nodes they come by the ten thousand, such as after a store was
 * away; left to itself the runtime lets its heap grow to twice of what it needs, and keeps that.
 */
const COLLECT_EACH = 2_000

/** Claims blocks of the store's pools, and keeps routes to the blocks of the other nodes. */
export function poolWork(surroundings: Surroundings, kernel: RouteKernel): Work {
  let changes = 0
  const onChange = ({ what }: Change) => {
    routes.wake()
    changes = what === "began" ? COLLECT_EACH : changes + 1
    if (changes < COLLECT_EACH) return
    changes = 0
    Bun.gc(true)
  }
  const engine = new Engine(surroundings, { addresses: kernel.addresses(), onChange, onTrust: () => routes.wake() })
  const routes: RouteKeeper = new RouteKeeper(routesOf(engine, surroundings, kernel))
  return {
    run: (signal) => together(signal, (all) => [engine.run(all), routes.run(all)]),
    status: () => ({ ...engine.status(), routes: routes.status }),
    missing() {
      if (!engine.view.isComplete) return ["the records of the store are not known yet"]
      const pools = [...engine.view.records("registry").values()].flatMap(({ value }) => Object.keys(value.pools))
      return pools.flatMap((pool) => missingFile(surroundings.node, pool))
    },
    acceptStore: () => engine.acceptStore(),
  }
}

/** What the routes are made from: the engine's view of the records. */
function routesOf(engine: Engine, { node, clock, log }: Surroundings, kernel: RouteKernel): RouteSurroundings {
  const storedOf = <K extends Kind>(kind: K) => [...engine.view.records(kind).values()]
  const valuesOf = <K extends Kind>(kind: K) => storedOf(kind).map(({ value }) => value)
  const oldOnes = (upTo: bigint) => {
    const old = [...storedOf("node"), ...storedOf("block")].filter(({ revision }) => revision <= upTo)
    return new Set(old.map(({ value }) => value))
  }
  return {
    node: node.owner.name,
    clock,
    kernel,
    records() {
      if (!engine.view.isComplete) return undefined
      const [registry = { pools: {} }] = valuesOf("registry")
      const records = { registry, nodes: valuesOf("node"), blocks: valuesOf("block") }
      if (engine.oldUpTo === undefined) return records
      const old = oldOnes(engine.oldUpTo)
      return { ...records, isOld: (record) => old.has(record) }
    },
    publish: (addresses) => engine.setAddresses(addresses),
    log,
  }
}

/** Copies `Node.spec.podCIDRs` into the file of a pool that has the network's name. No record is written, and no route is kept. */
export function podCidrWork(surroundings: Surroundings, { network, follow }: PodCidrs): Work {
  const { node, clock } = surroundings
  let fault: string | undefined
  let [watchEvents, heardMs] = [0, undefined as number | undefined]
  async function* counted(signal: AbortSignal) {
    for await (const prefixes of follow(signal)) {
      watchEvents++
      heardMs = clock.bootMs()
      yield prefixes
    }
  }
  return {
    run: (signal) =>
      followPodCidrs(surroundings, { network, follow: counted }, signal, (told) => {
        fault = told
      }),
    status: () => ({
      node: node.owner,
      store: {
        name: surroundings.store.name,
        ...(fault !== undefined && { fault }),
        ...(heardMs !== undefined && { lastContactS: (clock.bootMs() - heardMs) / 1000 }),
        requests: 0,
        writes: 0,
        watchEvents,
      },
      pools: [statusOfCopy(node, network)],
      lost: [],
    }),
    missing: () => missingFile(node, network),
    acceptStore() {
      throw new Error('the agent copies "podCIDRs", and has no store to accept')
    },
  }
}

function statusOfCopy(node: NodeFiles, network: string): PoolStatus {
  const taken = node.takenAddresses(network)
  const prefixes = (node.readPool(network)?.sets ?? []).map(({ prefix, blockLength, reserved }): PrefixStatus => {
    const blocks = Blocks.of({ prefix, blockLength, reserved })
    const used = taken.filter((address) => blocks.blockOf(address) === prefix).length
    const free = (blocks.capacityOf(prefix) - BigInt(used)).toString()
    const cluster = { free: "0", owned: 1, quarantined: 0 }
    return { prefix, blocks: [{ prefix, state: "owned", used }], used, free, cluster }
  })
  return { name: network, network, file: node.fileOf(network), prefixes, fixed: {} }
}

function missingFile(node: NodeFiles, pool: string): string[] {
  return node.readPool(pool) === undefined ? [`pool "${pool}" has no file yet`] : []
}

/** Waits for all parts. When one fails the others are ended, too, and its error is thrown. */
export async function together(signal: AbortSignal, begin: (signal: AbortSignal) => Promise<void>[]): Promise<void> {
  const failed = new AbortController()
  const parts = begin(AbortSignal.any([signal, failed.signal]))
  const outcomes = await Promise.allSettled(
    parts.map(async (part) => {
      try {
        await part
      } catch (error) {
        failed.abort()
        throw error
      }
    }),
  )
  for (const outcome of outcomes) if (outcome.status === "rejected") throw outcome.reason
}
