import { mkdir } from "node:fs/promises"
import { HostNamespace, type Job, pluginEnv, Station, TemporaryDirectory } from "../../integration/lab/mod.ts"
import { formatPoolFile, type PoolFile } from "../../ipam/host-local/main.ts"
import type { Contender, Scenario } from "../measure.ts"
import { pluginPath, type Suite } from "../suites.ts"

/** How many blocks the node's file has. */
const blockCounts = [1, 64] as const

/** The row, and its contenders. */
export const clusterAdd = "cluster, host-local, ADD"
export const fromRange = "one range"
export const fromBlocks = (count: number) => `pool, ${count} ${count === 1 ? "block" : "blocks"}`

/** host-local of ours in a namespace; `ipamOf` makes its keys for a directory. */
async function startHostLocal(suite: Suite, ipamOf: (directory: string) => Promise<object>): Promise<Contender> {
  await using stack = new AsyncDisposableStack()
  const host = stack.use(await HostNamespace.create())
  const pod = await host.addContainer()
  const directory = stack.use(await TemporaryDirectory.create("cni-bench", "/var/tmp"))
  const ipam = { type: "host-local", dataDir: directory.path, ...(await ipamOf(directory.path)) }
  const input = JSON.stringify({ cniVersion: "1.0.0", name: "bench", type: "bridge", ipam })
  const bin = pluginPath(suite, "host-local")
  const job = (verb: "ADD" | "DEL", containerId: string): Job => ({
    command: [bin],
    env: pluginEnv({ bin, netns: pod.path, ifName: "eth0", path: suite.directory, verb, containerId }),
    input,
  })
  const station = stack.use(Station.open(host))
  const kept = stack.move()
  let rounds = 0
  return {
    async round() {
      const id = `bench-${++rounds}`
      return { ADD: await station.time(job("ADD", id)), DEL: await station.time(job("DEL", id)) }
    },
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  }
}

/** The keys for a pool of which the node has so many blocks. */
async function poolOf(directory: string, count: number): Promise<object> {
  const poolDir = `${directory}/pools`
  await mkdir(poolDir, { mode: 0o755 })
  const machineId = (
    await Bun.file("/etc/machine-id")
      .text()
      .catch(() => "")
  ).trim()
  const blocks = Array.from({ length: count }, (_, at) => `10.89.${at >> 2}.${(at & 3) * 64}/26`)
  const file: PoolFile = {
    version: 1,
    pool: "bench",
    epoch: 1,
    node: { name: "node", uid: machineId, machineId },
    store: `${directory}/bench`,
    sets: [{ prefix: "10.89.0.0/16", blockLength: 26, blocks, draining: [], reserved: [] }],
    routes: [],
    fixed: {},
  }
  await Bun.write(`${poolDir}/bench.json`, formatPoolFile(file))
  return { pool: "bench", poolDir }
}

/** What an address costs that comes from a pool of the cluster's: the file is read, and nothing else is asked. */
export function clusters(suites: readonly Suite[]): Scenario[] {
  const ours = suites.find(({ name }) => name === "ours")
  if (!ours) return []
  const range = () => startHostLocal(ours, async () => ({ ranges: [[{ subnet: "10.89.0.0/16" }]] }))
  const pools = blockCounts.map(
    (count) => [fromBlocks(count), () => startHostLocal(ours, (directory) => poolOf(directory, count))] as const,
  )
  return [
    {
      name: "cluster, host-local,",
      steps: ["ADD", "DEL"],
      contenders: { [fromRange]: range, ...Object.fromEntries(pools) },
      baseline: fromRange,
    },
  ]
}
