import { readdir, rm } from "node:fs/promises"
import { formatPrefix, type Pool, type Prefix, parsePrefix } from "../../agent/mod.ts"
import {
  Chance,
  HostNamespace,
  type Job,
  pluginEnv,
  type Sample,
  Station,
  TemporaryDirectory,
  total,
} from "../../integration/lab/mod.ts"
import { AgentCluster } from "../cluster-nodes.ts"
import type { Contender, Scenario, StepSample } from "../measure.ts"
import { pluginPath, type Suite } from "../suites.ts"

/** So many pods, on so many nodes, by so many processes at a time. */
const [podCount, nodeCount, parallel] = [1_000, 10, 8]

/**
 * Addresses of a block: 1,000 pods have exactly 125 of them. Pods come to nodes in groups of so many, or no node could use its last
 * block to the end, and 1,000 addresses were not enough for any pool that is handed out in blocks.
 */
const blockSize = 8

/** Addresses of the pool: exactly as many as pods, and the most whole blocks that 1,100 have. */
const exactly = podCount
const ample = 1_096

/** A station takes so many calls at once. */
const atOnce = 250

/** A pod whose ADD ends with code 11 is tried again after so long; its runtime would wait for seconds. */
const retryMs = 100
const limitMs = 120_000
const seed = 26

/** The row, and its contenders. */
export const podRow = `cluster, ${podCount} pods on ${nodeCount} nodes,`
export const podAdds = `${podRow} ADDs`
export const fixedRanges = "fixed ranges"
export const withAddresses = (count: number) => `pool of ${count} addresses`
export const ampleAddresses = ample

/** For each pod its node, in the order in which pods come: both by chance. */
export function scatter(chance: Chance): number[] {
  const groups = Array.from({ length: podCount / blockSize }, () => chance.below(nodeCount))
  const pods = groups.flatMap((node) => Array.from({ length: blockSize }, () => node))
  for (let at = pods.length - 1; at > 0; at--) {
    const other = chance.below(at + 1)
    const moved = pods[at] ?? 0
    pods[at] = pods[other] ?? 0
    pods[other] = moved
  }
  return pods
}

/** The fewest prefixes that have the addresses from `from` to before `to`. */
function prefixesOf({ family, first }: Prefix, from: bigint, to: bigint): string[] {
  const prefixes: string[] = []
  for (let at = from; at < to; ) {
    let bits = 0
    while (at % (2n << BigInt(bits)) === 0n && at + (2n << BigInt(bits)) <= to) bits++
    prefixes.push(formatPrefix({ family, first: first + at, length: 32 - bits }))
    at += 1n << BigInt(bits)
  }
  return prefixes
}

/** A pool that has so many addresses to hand out. All nodes share its gateway, so that no block keeps an address of its own back. */
export function poolOf(addresses: number): Pool {
  const prefix = "10.64.0.0/21"
  const whole = parsePrefix(prefix)
  if (!whole) throw new RangeError(`"${prefix}" is no prefix`)
  const first = BigInt(blockSize)
  const reserved = [
    ...prefixesOf(whole, 0n, first),
    ...prefixesOf(whole, first + BigInt(addresses), whole.last - whole.first + 1n),
  ]
  return {
    name: "bench",
    network: "bench",
    prefixes: [{ prefix, blockLength: 29, gateway: "10.64.0.1", reserved }],
    routes: [],
    quarantineS: 3600,
    routing: "none",
  }
}

/** What a contender is made of: where its calls run, and each node's keys and store. */
interface Nodes {
  readonly host: HostNamespace
  readonly ipams: readonly object[]
  readonly stores: readonly string[]
  /** Waits until the nodes have no more than they keep without pods. */
  settle(): Promise<unknown>
}

/** Attaches all pods to nodes without any in each round, in the same order for all contenders, and detaches them. */
async function startPods(suite: Suite, nodes: Nodes, kept: AsyncDisposableStack): Promise<Contender> {
  const { host, ipams, stores } = nodes
  const pod = await host.addContainer()
  const bin = pluginPath(suite, "host-local")
  const inputs = ipams.map((ipam) => JSON.stringify({ cniVersion: "1.0.0", name: "bench", type: "bridge", ipam }))
  const station = kept.use(Station.open(host))
  const job = (verb: "ADD" | "DEL", node: number, at: number): Job => ({
    command: [bin],
    env: pluginEnv({
      bin,
      netns: pod.path,
      ifName: "eth0",
      path: suite.directory,
      verb,
      containerId: `pod-${node}-${at}`,
    }),
    input: inputs[node] ?? "",
  })
  let rounds = 0
  return {
    async round() {
      await nodes.settle()
      await Promise.all(stores.map(forgetCursor))
      const order = scatter(new Chance(seed + rounds++))
      const added = await attachAll(
        station,
        order.map((node, at) => job("ADD", node, at)),
      )
      const removals = order.map((node, at) => job("DEL", node, at))
      return { ADDs: added, DELs: await runAll(station, removals, parallel) }
    },
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  }
}

/** The nodes of a round are as new: host-local goes on after the last address, and would leave the ones before it free until the end. */
async function forgetCursor(store: string): Promise<void> {
  const names = await readdir(store).catch(() => [])
  for (const name of names) if (name.startsWith("last_reserved_ip")) await rm(`${store}/${name}`)
}

/** Runs ADDs until each has an address, and tells how many calls were told to try again. Throws for any other failure. */
async function attachAll(station: Station, jobs: readonly Job[]): Promise<StepSample> {
  const start = performance.now()
  const samples: Sample[] = []
  let failed = 0
  for (let left = [...jobs]; left.length > 0; ) {
    const wave = left.slice(0, atOnce)
    const chains = wave.map((job) => [job])
    const { outcomes } = await station.run(chains, parallel, { mayFail: true })
    samples.push(...outcomes.flat())
    const failures = outcomes.map(([outcome]) => outcome?.failure)
    const wrong = failures.find((failure) => failure !== undefined && !/"code": ?11\b/.test(failure))
    if (wrong !== undefined) throw new Error(wrong)
    const again = wave.filter((_, at) => failures[at] !== undefined)
    const isLate = performance.now() - start > limitMs
    if (isLate && again.length > 0)
      throw new Error(`Pods have no address after ${limitMs} ms: ${failures.find((failure) => failure !== undefined)}`)
    failed += again.length
    left = [...left.slice(atOnce), ...again]
    if (again.length > 0 && again.length === left.length) await Bun.sleep(retryMs)
  }
  return { ...total(samples, performance.now() - start), failed }
}

/** Runs so many calls that a station takes them in waves. */
export async function runAll(station: Station, jobs: readonly Job[], inParallel: number): Promise<Sample> {
  const waves: Sample[] = []
  for (let at = 0; at < jobs.length; at += atOnce) {
    const chains = jobs.slice(at, at + atOnce).map((job) => [job])
    waves.push((await station.run(chains, inParallel)).whole)
  }
  return total(waves)
}

async function startFixed(suite: Suite): Promise<Contender> {
  await using stack = new AsyncDisposableStack()
  const directory = stack.use(await TemporaryDirectory.create("cni-bench", "/var/tmp"))
  const host = stack.use(await HostNamespace.create())
  const places = Array.from({ length: nodeCount }, (_, at) => directory.join(`node-${at}`))
  const ipams = places.map((dataDir, at) => ({
    type: "host-local",
    dataDir,
    ranges: [[{ subnet: `10.65.${at}.0/24` }]],
  }))
  const nodes = { host, ipams, stores: places.map((place) => `${place}/bench`), settle: async () => {} }
  return await startPods(suite, nodes, stack.move())
}

/** Real agents, each of a node of its own, and one member of etcd: its work is not that of nodes, and takes as little as can be of their processors. */
async function startPool(suite: Suite, addresses: number): Promise<Contender> {
  await using stack = new AsyncDisposableStack()
  const cluster = stack.use(await AgentCluster.start(poolOf(addresses), nodeCount, 1))
  const nodes = {
    host: cluster.etcd.lan,
    ipams: cluster.nodes.map(({ ipam }) => ipam),
    stores: cluster.nodes.map(({ store }) => store),
    settle: () =>
      Promise.all(
        cluster.nodes.map((node) => node.waitForBlocks((count) => count > 0 && count <= 3, "at most 3 blocks")),
      ),
  }
  return await startPods(suite, nodes, stack.move())
}

/** A deployment comes to a cluster. A pool of exactly as many addresses has one for each pod only if nodes give back what they have in hand. */
export function podRows(suites: readonly Suite[]): Scenario[] {
  const ours = suites.find(({ name }) => name === "ours")
  if (!ours) return []
  const pools = [ample, exactly].map((count) => [withAddresses(count), () => startPool(ours, count)] as const)
  return [
    {
      name: podRow,
      steps: ["ADDs", "DELs"],
      contenders: { [fixedRanges]: () => startFixed(ours), ...Object.fromEntries(pools) },
      baseline: fixedRanges,
      atLeast: 3,
      warmUp: 1,
    },
  ]
}
