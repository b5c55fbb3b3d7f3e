import { mkdir, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { HostNamespace, pluginEnv, TemporaryDirectory } from "../../integration/mod.ts"
import type { Contender, Scenario } from "../measure.ts"
import { Station } from "../station.ts"
import { pluginPath, suites } from "../suites.ts"

type Suite = keyof typeof suites

/** Reservations of a pool of 65,000 addresses that others hold before the measurement begins. */
const fillings = [0, 1_000, 10_000, 30_000] as const

/** As many processes at a time, and as many ADDs, as when a node starts its pods. */
const PARALLEL = { processes: 8, calls: 100 }

/** A suite's host-local on a store of its own, with so many addresses taken. */
async function startPool(suite: Suite, taken: number) {
  await using stack = new AsyncDisposableStack()
  const host = stack.use(await HostNamespace.create())
  const pod = await host.addContainer()
  const directory = stack.use(await TemporaryDirectory.create("cni-bench", "/var/tmp"))
  await fill(directory.join("bench"), taken)
  const ipam = { type: "host-local", dataDir: directory.path, ranges: [[{ subnet: "10.88.0.0/16" }]] }
  const config = JSON.stringify({ cniVersion: "1.0.0", name: "bench", type: "bridge", ipam })
  const bin = pluginPath(suite, "host-local")
  const call = { bin, netns: pod.path, ifName: "eth0", path: suites[suite] }
  return { call, bin, config, directory, station: stack.use(Station.open(host)), kept: stack.move() }
}

/** Reservations in the layout that both suites read, as if containers had come one after the other. */
async function fill(directory: string, taken: number): Promise<void> {
  await mkdir(directory, { recursive: true })
  const address = (index: number) => `10.88.${(index + 2) >> 8}.${(index + 2) & 0xff}`
  for (let index = 0; index < taken; index++) {
    await writeFile(join(directory, address(index)), `other-${index}\r\neth0`)
  }
  if (taken > 0) await writeFile(join(directory, "last_reserved_ip.0"), address(taken - 1))
}

async function startOneByOne(suite: Suite, taken: number): Promise<Contender> {
  const { call, bin, config, station, kept } = await startPool(suite, taken)
  let rounds = 0
  return {
    async round() {
      const containerId = `bench-${++rounds}`
      const time = async (verb: "ADD" | "DEL") => {
        const job = { command: [bin], env: pluginEnv({ ...call, verb, containerId }), input: config }
        return (await station.time(job)).ms
      }
      return { ADD: await time("ADD"), DEL: await time("DEL") }
    },
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  }
}

async function startTogether(suite: Suite, taken: number): Promise<Contender> {
  const { call, bin, config, directory, station, kept } = await startPool(suite, taken)
  const file = directory.join("bench.json")
  await writeFile(file, config)
  const { processes, calls } = PARALLEL
  const each = `CNI_CONTAINERID=bench-{} exec ${bin} < ${file} > /dev/null`
  const command = ["/bin/sh", "-c", `seq ${calls} | xargs -P ${processes} -I{} sh -c '${each}'`]
  const time = async (verb: "ADD" | "DEL") =>
    (await station.time({ command, env: pluginEnv({ ...call, verb }), input: "" })).ms
  return {
    round: async () => ({ [`${calls} ADDs`]: await time("ADD"), [`${calls} DELs`]: await time("DEL") }),
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  }
}

const numbers = new Intl.NumberFormat("en")
const name = (suite: Suite, taken: number) => `${suite}, ${numbers.format(taken)} leases`
const allOf = (start: (suite: Suite, taken: number) => Promise<Contender>, takens: readonly number[]) =>
  Object.fromEntries(
    (["ours", "Go"] as const).flatMap((suite) =>
      takens.map((taken) => [name(suite, taken), () => start(suite, taken)] as const),
    ),
  )

/** One address at a time, and a hundred by eight processes, from pools with more and more of it taken. */
export const hostLocals: readonly Scenario[] = [
  {
    name: "host-local",
    steps: ["ADD", "DEL"],
    contenders: allOf(startOneByOne, fillings),
    baseline: name("ours", 0),
    targets: { [name("ours", 30_000)]: { ADD: 1.3, DEL: 1.3 } },
  },
  ...[0, 1_000].map((taken) => ({
    name: `host-local, ${PARALLEL.processes} processes,`,
    steps: [`${PARALLEL.calls} ADDs`, `${PARALLEL.calls} DELs`],
    contenders: allOf(startTogether, [taken]),
    baseline: name("Go", taken),
    targets: { [name("ours", taken)]: { [`${PARALLEL.calls} ADDs`]: 1 } },
  })),
]
