import { join } from "node:path"
import { total } from "../../integration/lab/mod.ts"
import type { Contender, Scenario } from "../measure.ts"
import { programs } from "../programs.ts"
import { contendersOf, type Suite } from "../suites.ts"
import { bridgeConfig, residents } from "./bridge.ts"
import { type ChainOf, Node, startNode } from "./node.ts"

/** Returns the plugins of a pod: a bridge with masquerade, a sysctl, and this many published ports. */
export function chainOf(ports: number): ChainOf {
  return (dataDir, pod) => {
    const portMappings = Array.from({ length: ports }, (_, port) => ({
      hostPort: 8080 + pod * ports + port,
      containerPort: 80 + port,
      protocol: "tcp",
    }))
    const shared = { cniVersion: "1.0.0", name: "bench" }
    return [
      bridgeConfig(true, dataDir),
      { ...shared, type: "tuning", sysctl: { "net.core.somaxconn": "500" }, dataDir },
      { ...shared, type: "portmap", runtimeConfig: { portMappings } },
    ]
  }
}

/** The contender for the lower bound: one C program makes the chain's changes, and three empty processes start. */
export const floorName = "kernel floor"

async function startFloor(suites: readonly Suite[]): Promise<Contender> {
  const ours = suites.find(({ name }) => name === "ours")
  if (!ours) throw new Error("The kernel floor needs our suite, which makes its tables")
  const node = await Node.open(ours, chainOf(1))
  await node.populate(1)
  const { path } = await node.host.addContainer()
  const empty = { command: [programs.empty], env: {}, input: "" }
  const time = async (verb: "ADD" | "DEL") => {
    const floor = { command: [programs.floor, verb, path, join(node.dataDir, "bench")], env: {}, input: "" }
    return total((await node.station.run([[floor, empty, empty, empty]])).outcomes.flat())
  }
  return {
    round: async () => ({ ADD: await time("ADD"), DEL: await time("DEL") }),
    [Symbol.asyncDispose]: () => node[Symbol.asyncDispose](),
  }
}

/** Returns the scenarios of a pod's network: one port beside one other pod and on a full node, and twenty ports. */
export function chains(suites: readonly Suite[]): Scenario[] {
  const scenario = (ports: number, pods: number): Scenario => ({
    name: `chain with ${ports} port${ports === 1 ? "" : "s"} beside ${pods}`,
    steps: ["ADD", "DEL"],
    contenders: contendersOf(suites, (suite) => startNode(suite, chainOf(ports), pods)),
    baseline: "Go",
  })
  const [one, ...more] = residents.map((pods) => scenario(1, pods))
  if (!one) return more
  const withFloor = { ...one, contenders: { ...one.contenders, [floorName]: () => startFloor(suites) } }
  return [withFloor, ...more, scenario(20, 1)]
}
