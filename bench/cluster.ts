/**
 * Measures what a cluster's agents need of their node and of their store, as a table. Needs root, a build, and Debian's etcd.
 *
 *   npm run bench:cluster -- [--nodes N] [--rest SECONDS]
 *
 * All is measured once: these are no times that two contenders take in turns.
 */
import { loadavg } from "node:os"
import { parseArgs } from "node:util"
import type { Pool } from "../agent/mod.ts"
import { Chance, type Job, mustRun, pluginEnv, Station, waitFor } from "../integration/lab/mod.ts"
import type { ClaimOrder, Claims } from "./cluster-claims.ts"
import { AgentCluster, type AgentNode, growth, usageOf } from "./cluster-nodes.ts"
import { buildPrograms } from "./programs.ts"
import { machineFacts } from "./results.ts"
import { runAll } from "./rows/pods.ts"
import { pluginPath } from "./suites.ts"

/** A figure, and the bound where it has one. */
interface Figure {
  readonly what: string
  readonly is: string
  readonly must?: string
  readonly holds?: boolean
}

const [members, blocksPerNode] = [3, 2]
const pairs = 1_000
const seed = 26

/** Blocks of four addresses: a node needs two of them for the eight that it keeps in hand. */
const manyBlocks: Pool = {
  name: "bench",
  network: "bench",
  prefixes: [
    {
      prefix: "10.64.0.0/16",
      blockLength: 30,
      gateway: "10.64.0.1",
      reserved: ["10.64.0.0/30", "10.64.255.252/30"],
    },
  ],
  routes: [],
  quarantineS: 86_400,
  routing: "none",
}

const usualBlocks: Pool = {
  ...manyBlocks,
  prefixes: [{ prefix: "10.64.0.0/16", blockLength: 26, reserved: [] }],
}

async function writesOf(nodes: readonly AgentNode[]): Promise<number> {
  const all = await Promise.all(nodes.map((node) => node.status()))
  return all.reduce((sum, { store }) => sum + store.writes, 0)
}

/** Pods that come and go by chance, on nodes with some forty each: now and then one has more than a block has addresses for. */
export function churn(chance: Chance, nodes: number): { verb: "ADD" | "DEL"; node: number; id: number }[] {
  const [lives, most] = [[] as { node: number; id: number }[], 80 * nodes]
  const steps: { verb: "ADD" | "DEL"; node: number; id: number }[] = []
  for (let id = 0; id < pairs || lives.length > 0; ) {
    const isFull = lives.length >= most || id >= pairs
    if (lives.length === 0 || (!isFull && chance.below(most) >= lives.length)) {
      const pod = { node: chance.below(nodes), id: id++ }
      lives.push(pod)
      steps.push({ verb: "ADD", ...pod })
    } else {
      const [pod] = lives.splice(chance.below(lives.length), 1)
      if (pod) steps.push({ verb: "DEL", ...pod })
    }
  }
  return steps
}

async function measureChurn(restS: number): Promise<Figure[]> {
  await using cluster = await AgentCluster.start(usualBlocks, 3, members)
  const { nodes, etcd } = cluster
  await using station = Station.open(etcd.lan)
  const pod = await etcd.lan.addContainer()
  const ours = { name: "ours", directory: `${import.meta.dir}/../dist/bin` } as const
  const bin = pluginPath(ours, "host-local")
  const job = (verb: "ADD" | "DEL", node: number, id: number): Job => ({
    command: [bin],
    env: pluginEnv({ bin, netns: pod.path, ifName: "eth0", path: ours.directory, verb, containerId: `pod-${id}` }),
    input: JSON.stringify({ cniVersion: "1.0.0", name: "bench", type: "bridge", ipam: nodes[node]?.ipam }),
  })
  const before = await writesOf(nodes)
  const steps = churn(new Chance(seed), nodes.length)
  const jobs = steps.map(({ verb, node, id }) => job(verb, node, id))
  await runAll(station, jobs, 1)
  const perPair = ((await writesOf(nodes)) - before) / pairs
  const [first] = nodes
  if (!first) throw new Error("there is no node")
  return [
    {
      what: `store writes for each of ${pairs} ADD and DEL, on 3 nodes that have their blocks`,
      is: perPair.toFixed(4),
      must: "< 0.02",
      holds: perPair < 0.02,
    },
    ...(await measureRest(first, restS, "beside 2 other nodes")),
  ]
}

async function measureRest({ pid }: AgentNode, restS: number, where: string): Promise<Figure[]> {
  const before = await usageOf(pid)
  await Bun.sleep(restS * 1000)
  const after = await usageOf(pid)
  const perMinute = (ns: number) => (ns * 60) / restS
  const { residentMb, peakMb } = after
  return [
    {
      what: `memory of an agent ${where}, at rest`,
      is: `${residentMb.toFixed(0)} MB, at most ${peakMb.toFixed(0)} MB`,
      must: "< 80 MB",
      holds: residentMb < 80,
    },
    {
      what: `CPU time of it, at rest for ${restS} s`,
      is: `${perMinute(growth(before.cpuNs, after.cpuNs) / 1e6).toFixed(1)} ms a minute`,
    },
    {
      what: "times that a thread of it wakes up",
      is: `${perMinute(growth(before.wakeUps, after.wakeUps)).toFixed(0)} a minute`,
    },
  ]
}

/** Nodes that claim their blocks while a real agent stands still, which then takes all changes at once. */
async function measureClaims(nodeCount: number, restS: number): Promise<Figure[]> {
  await using cluster = await AgentCluster.start(manyBlocks, 1, members)
  const { etcd, nodes } = cluster
  const [agent] = nodes
  if (!agent) throw new Error("there is no node")
  await agent.waitForBlocks((count) => count >= blocksPerNode, "its blocks")
  const before = (await agent.status()).store.watchEvents
  agent.signal("SIGSTOP")
  const order: ClaimOrder = { nodes: nodeCount, blocks: blocksPerNode, store: etcd.storeConfig }
  const program = [process.execPath, `${import.meta.dir}/cluster-claims.ts`, JSON.stringify(order)]
  const { stdout } = await mustRun(etcd.lan.commandLine(program), { timeoutMs: 600_000 })
  const { medianS, p99S, lastS, requests, writes, taken } = JSON.parse(stdout) as Claims
  const used = await usageOf(agent.pid)
  const startMs = performance.now()
  agent.signal("SIGCONT")
  const owned = (nodeCount + 1) * blocksPerNode
  const status = await waitFor(
    async () => {
      const told = await agent.status()
      return told.pools[0]?.prefixes[0]?.cluster?.owned === owned ? told : undefined
    },
    `the agent to know ${owned} blocks`,
    120_000,
  )
  const tookS = (performance.now() - startMs) / 1000
  const cpuMs = growth(used.cpuNs, (await usageOf(agent.pid)).cpuNs) / 1e6
  const events = status.store.watchEvents - before
  const name = `${nodeCount} nodes that claim ${blocksPerNode} blocks each at the same time`
  return [
    {
      what: `${name}: the last one has them after`,
      is: `${lastS.toFixed(1)} s`,
      must: "<= 60 s",
      holds: lastS <= 60,
    },
    { what: "half of them, and 99 of 100", is: `${medianS.toFixed(1)} s, ${p99S.toFixed(1)} s` },
    {
      what: "requests and writes of each of these nodes",
      is: `${(requests / nodeCount).toFixed(1)}, ${(writes / nodeCount).toFixed(1)}`,
    },
    { what: "claims of a block that another node had", is: `${taken}` },
    {
      what: "changes that a real agent takes, which stood still during the claims",
      is: `${events}: ${(events / tookS).toFixed(0)} a second, ${((cpuMs / events) * 1000).toFixed(0)} µs of CPU time each`,
    },
    ...(await measureRest(agent, restS, `beside ${nodeCount} other nodes`)),
  ]
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: { nodes: { type: "string", default: "5000" }, rest: { type: "string", default: "60" } },
  })
  const [nodes, restS] = [Number(values.nodes), Number(values.rest)]
  if (!Number.isInteger(nodes) || nodes < 1 || nodes > 8_000)
    throw new Error(`Cannot measure with "${values.nodes}" nodes`)
  if (!(restS > 0)) throw new Error(`Cannot measure rest for "${values.rest}" seconds`)
  if (process.getuid?.() !== 0) throw new Error("The benchmark makes network namespaces, which needs root")
  await buildPrograms()
  const load = loadavg()[0] ?? 0
  const figures = [...(await measureChurn(restS)), ...(await measureClaims(nodes, restS))]
  const lines = figures.map(({ what, is, must = "", holds }) => {
    const outcome = holds === undefined ? "" : holds ? "met" : "MISSED"
    return `| ${what} | ${is} | ${must} | ${outcome} |`
  })
  console.log(["| figure | measured | must | |", "| --- | ---: | --- | --- |", ...lines].join("\n"))
  const facts = [...(await machineFacts()), `Load average before it: ${load.toFixed(1)}`]
  console.log(`\n${facts.map((fact) => `- ${fact}`).join("\n")}`)
}

if (import.meta.main) {
  try {
    await main()
  } catch (error) {
    console.error(error instanceof Error ? error.message : error)
    process.exitCode = 1
  }
}
