import { chmod } from "node:fs/promises"
import { join } from "node:path"
import {
  HostNamespace,
  type Job,
  programEnv,
  type Sample,
  Station,
  TemporaryDirectory,
} from "../../integration/lab/mod.ts"
import type { Contender, Scenario } from "../measure.ts"
import type { Suite } from "../suites.ts"

const FLUSHED = "reconcile after nft flush ruleset"

/** The numbers of containers, a usual full node and a large one, and the commands that are timed. */
const nodes = [
  { containers: 110, steps: ["help", "ps"] },
  { containers: 250, steps: ["ps", "status", "trace", "graph", "doctor", "reconcile", FLUSHED] },
] as const

const network = {
  cniVersion: "1.1.0",
  name: "pods",
  plugins: [
    {
      type: "bridge",
      isDefaultGateway: true,
      ipMasq: true,
      ipam: { type: "host-local", ranges: [[{ subnet: "10.22.0.0/16" }]] },
    },
    { type: "portmap", capabilities: { portMappings: true } },
  ],
}

async function startTools(plugins: string, { containers, steps }: (typeof nodes)[number]): Promise<Contender> {
  await using stack = new AsyncDisposableStack()
  const host = stack.use(await HostNamespace.create())
  const station = stack.use(Station.open(host))
  const directory = stack.use(await TemporaryDirectory.create("cni-bench", "/var/tmp"))
  await Bun.write(directory.join("10-pods.conflist"), JSON.stringify(network))
  const env = { ...programEnv, NETCONFPATH: directory.path, CNI_PATH: plugins }
  const tool = (args: readonly string[], more: Job["env"] = {}): Job => ({
    command: [join(plugins, "../cni"), ...args],
    env: { ...env, ...more },
    input: "",
  })
  const adds: Job[] = []
  let netns = ""
  for (let index = 1; index <= containers; index++) {
    netns = (await host.addContainer()).path
    const CAP_ARGS = JSON.stringify({ portMappings: [{ hostPort: 8000 + index, containerPort: 80, protocol: "tcp" }] })
    const CNI_ARGS = `IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web-${index}`
    adds.push(tool(["add", "pods", netns, "--container-id", `bench-${index}`], { CAP_ARGS, CNI_ARGS }))
  }
  await station.run(
    adds.map((add) => [add]),
    4,
  )
  const commands: Readonly<Record<Step, Job>> = {
    help: tool(["--help"]),
    ps: tool(["ps"]),
    status: tool(["status", "pods"]),
    trace: tool(["trace", "pods", netns, "--to", "10.22.0.1"]),
    graph: tool(["graph", "--write", "/dev/null"]), // the station does not accept the long output
    doctor: tool(["doctor"]),
    reconcile: tool(["reconcile"]),
    [FLUSHED]: tool(["reconcile"]),
  }
  const flush: Job = { command: ["/usr/sbin/nft", "flush", "ruleset"], env: programEnv, input: "" }
  const kept = stack.move()
  return {
    async round() {
      const taken: Partial<Record<Step, Sample>> = {}
      for (const step of steps) {
        if (step === FLUSHED) await station.time(flush)
        taken[step] = await station.time(commands[step])
      }
      return taken
    },
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  }
}

type Step = (typeof nodes)[number]["steps"][number]

/** The number of attachments with only a record in the cache, which engines read and join at different speeds. */
const RECORDS = 2_000
const recordSteps = ["ps", "doctor", "graph"] as const

/** Returns a record in the runtime's cache, as after ADD. */
const recordOf = (index: number) => ({
  kind: "cniCacheV1",
  containerId: `bench-${index}`,
  config: Buffer.from(JSON.stringify(network)).toString("base64"),
  configComplete: true,
  ifName: "eth0",
  networkName: network.name,
  netns: `/run/netns/bench-${index}`,
  cniArgs: [
    ["K8S_POD_NAMESPACE", "shop"],
    ["K8S_POD_NAME", `web-${index}`],
  ],
  result: {
    cniVersion: "1.1.0",
    interfaces: [
      { name: `veth${index}`, mac: "0a:58:0a:16:00:02" },
      { name: "eth0", mac: "0a:58:0a:16:00:03", sandbox: `/run/netns/bench-${index}` },
    ],
    ips: [{ address: `10.22.${index >> 8}.${index & 255}/16`, gateway: "10.22.0.1", interface: 1 }],
    routes: [{ dst: "0.0.0.0/0", gw: "10.22.0.1" }],
  },
})

/** Bundles the tool's sources for Bun. Returns the command that runs the bundle. */
async function bundleForBun(outdir: string): Promise<readonly string[]> {
  const main = join(import.meta.dir, "../../cmd/main.ts")
  await Bun.build({ entrypoints: [main], target: "bun", outdir, naming: "cni.js" })
  return [process.execPath, join(outdir, "cni.js")]
}

/** Starts a contender that times commands beside thousands of records. `commandOf` returns the command to time. */
async function startRecords(commandOf: (directory: string) => Promise<readonly string[]>): Promise<Contender> {
  await using stack = new AsyncDisposableStack()
  const host = stack.use(await HostNamespace.create())
  const station = stack.use(Station.open(host))
  const directory = stack.use(await TemporaryDirectory.create("cni-bench", "/var/tmp"))
  for (let index = 1; index <= RECORDS; index++)
    await Bun.write(directory.join(`cache/results/pods-bench-${index}-eth0`), JSON.stringify(recordOf(index)))
  await chmod(directory.join("cache/results"), 0o700)
  const command = await commandOf(directory.path)
  const kept = stack.move()
  const places = ["--cache-dir", directory.join("cache"), "--conf-dir", directory.path]
  const timed = (...words: readonly string[]) =>
    station.time({
      // The station does not accept the long output. The containers do not exist, so doctor ends with exit code 3.
      command: ["/bin/sh", "-c", '"$@" >/dev/null || [ $? = 3 ]', "sh", ...command, ...words, ...places],
      env: programEnv,
      input: "",
    })
  return {
    async round() {
      return {
        ps: await timed("ps", "-o", "json"),
        doctor: await timed("doctor", "-o", "json"),
        graph: await timed("graph", "--write", "/dev/null"),
      }
    },
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  }
}

/** Returns the scenarios of our tool: commands on a full node, and the native host compared with Bun. */
export function tools(suites: readonly Suite[]): Scenario[] {
  const ours = suites.find(({ name }) => name === "ours")
  if (!ours) return []
  const full = nodes.map((node) => ({
    name: `cni, ${node.containers} containers,`,
    steps: node.steps,
    contenders: { cni: () => startTools(ours.directory, node) },
    baseline: "cni",
  }))
  const records: Scenario = {
    name: `cni, ${RECORDS} records,`,
    steps: recordSteps,
    contenders: {
      cni: () => startRecords(async () => [join(ours.directory, "../cni")]),
      Bun: () => startRecords(bundleForBun),
    },
    baseline: "Bun",
  }
  return [...full, records]
}
