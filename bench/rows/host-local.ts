import { writeFileSync } from "node:fs"
import { mkdir, rm, utimes } from "node:fs/promises"
import { join } from "node:path"
import { HostNamespace, type Job, pluginEnv, Station, TemporaryDirectory } from "../../integration/lab/mod.ts"
import type { Contender, Scenario } from "../measure.ts"
import { contendersOf, pluginPath, type Suite } from "../suites.ts"

/** The numbers of addresses that other containers have reserved before the measurement, in a pool of 65,000. */
const fillings = [0, 1_000, 10_000, 30_000] as const
const most = 30_000

/** The numbers of concurrent processes and of ADDs, as when a node starts its pods. */
const together = { processes: 8, calls: 100 } as const

/** Starts a suite's host-local with its own store, in which `taken` addresses are reserved. */
async function startPool(suite: Suite, taken: number) {
  await using stack = new AsyncDisposableStack()
  const host = stack.use(await HostNamespace.create())
  const pod = await host.addContainer()
  const directory = stack.use(await TemporaryDirectory.create("cni-bench", "/var/tmp"))
  const store = directory.join("bench")
  await fill(store, taken)
  const ipam = { type: "host-local", dataDir: directory.path, ranges: [[{ subnet: "10.88.0.0/16" }]] }
  const input = JSON.stringify({ cniVersion: "1.0.0", name: "bench", type: "bridge", ipam })
  const bin = pluginPath(suite, "host-local")
  const call = { bin, netns: pod.path, ifName: "eth0", path: suite.directory }
  const job = (verb: "ADD" | "DEL", containerId: string): Job => ({
    command: [bin],
    env: pluginEnv({ ...call, verb, containerId }),
    input,
  })
  return { job, store, station: stack.use(Station.open(host)), kept: stack.move() }
}

/** Writes reservations in the layout that both suites read, as if containers had been added one after the other. */
async function fill(directory: string, taken: number): Promise<void> {
  await mkdir(directory, { recursive: true })
  const address = (index: number) => `10.88.${(index + 2) >> 8}.${(index + 2) & 0xff}`
  for (let index = 0; index < taken; index++) {
    writeFileSync(join(directory, address(index)), `other-${index}\r\neth0`)
  }
  if (taken > 0) writeFileSync(join(directory, "last_reserved_ip.0"), address(taken - 1))
}

async function startOneByOne(suite: Suite, taken: number): Promise<Contender> {
  const { job, station, kept } = await startPool(suite, taken)
  let rounds = 0
  return {
    async round() {
      const id = `bench-${++rounds}`
      return { ADD: await station.time(job("ADD", id)), DEL: await station.time(job("DEL", id)) }
    },
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  }
}

/** Starts a contender that times the first ADD on a node, which has no store yet, and its DEL. */
async function startFirst(suite: Suite): Promise<Contender> {
  const { job, store, station, kept } = await startPool(suite, 0)
  return {
    async round() {
      await rm(store, { recursive: true })
      return { ADD: await station.time(job("ADD", "bench")), DEL: await station.time(job("DEL", "bench")) }
    },
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  }
}

/** Starts a contender that times an ADD after another program changed the store, so that the index must be rebuilt. */
async function startAnew(suite: Suite, taken: number): Promise<Contender> {
  const { job, store, station, kept } = await startPool(suite, taken)
  let rounds = 0
  return {
    async round() {
      const id = `bench-${++rounds}`
      await utimes(store, new Date(), new Date())
      const added = await station.time(job("ADD", id))
      await station.time(job("DEL", id))
      return { ADD: added }
    },
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  }
}

async function startTogether(suite: Suite, taken: number): Promise<Contender> {
  const { job, station, kept } = await startPool(suite, taken)
  const { processes, calls } = together
  const time = async (verb: "ADD" | "DEL") => {
    const chains = Array.from({ length: calls }, (_, at) => [job(verb, `bench-${at}`)])
    return (await station.run(chains, processes)).whole
  }
  return {
    round: async () => ({ [`${calls} ADDs`]: await time("ADD"), [`${calls} DELs`]: await time("DEL") }),
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  }
}

const numbers = new Intl.NumberFormat("en")

export const withLeases = (suite: Suite["name"], taken: number) => `${suite}, ${numbers.format(taken)} leases`

/** Returns the scenarios of host-local: one lease, and a hundred by eight processes, from ever fuller pools. */
export function hostLocals(suites: readonly Suite[]): Scenario[] {
  const filled = suites.flatMap((suite) =>
    fillings.map((taken) => [withLeases(suite.name, taken), () => startOneByOne(suite, taken)] as const),
  )
  return [
    {
      name: "host-local",
      steps: ["ADD", "DEL"],
      contenders: contendersOf(suites, (suite) => startOneByOne(suite, 0)),
      baseline: "Go",
    },
    {
      name: "host-local, no store,",
      steps: ["ADD", "DEL"],
      contenders: contendersOf(suites, startFirst),
      baseline: "Go",
    },
    {
      name: "host-local by leases",
      steps: ["ADD", "DEL"],
      contenders: Object.fromEntries(filled),
      baseline: withLeases("ours", 0),
    },
    {
      name: `host-local, ${numbers.format(most)} leases read anew,`,
      steps: ["ADD"],
      contenders: contendersOf(suites, (suite) => startAnew(suite, most)),
      baseline: "Go",
    },
    ...[0, 1_000].map((taken) => ({
      name: `host-local, ${together.processes} processes, ${numbers.format(taken)} leases,`,
      steps: [`${together.calls} ADDs`, `${together.calls} DELs`],
      contenders: contendersOf(suites, (suite) => startTogether(suite, taken)),
      baseline: "Go",
    })),
  ]
}
