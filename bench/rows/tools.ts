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

/** How many containers a node has, and the commands that are timed there: a usual full node, and a large one. */
const nodes = [
  { containers: 110, steps: ["help", "ps"] },
  { containers: 250, steps: ["ps", "status", "trace", "graph", "doctor"] },
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

/** Times the commands that read a node, on one that is full. */
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
    graph: tool(["graph", "--write", "/dev/null"]), // more than the station takes of an answer
    doctor: tool(["doctor"]),
  }
  const kept = stack.move()
  return {
    async round() {
      const taken: Partial<Record<Step, Sample>> = {}
      for (const step of steps) taken[step] = await station.time(commands[step])
      return taken
    },
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  }
}

type Step = (typeof nodes)[number]["steps"][number]

/** What an operator waits for on a full node. No other suite has these commands. */
export function tools(suites: readonly Suite[]): Scenario[] {
  const ours = suites.find(({ name }) => name === "ours")
  if (!ours) return []
  return nodes.map((node) => ({
    name: `cni, ${node.containers} containers,`,
    steps: node.steps,
    contenders: { cni: () => startTools(ours.directory, node) },
    baseline: "cni",
  }))
}
