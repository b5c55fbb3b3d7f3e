import { HostNamespace, pluginEnv, Station } from "../../integration/lab/mod.ts"
import type { Contender, Scenario } from "../measure.ts"
import { pluginPath, type Suite } from "../suites.ts"
import { fillPortmap } from "./filling.ts"

/** The numbers of containers with a mapped port on the host before the measurement. */
const fillings = [1, 1_000] as const

/** Returns the configuration of portmap with one port, in the newest version that both suites support. */
function portmapConfig(netns: string) {
  return {
    cniVersion: "1.0.0",
    name: "bench",
    type: "portmap",
    runtimeConfig: { portMappings: [{ hostPort: 8080, containerPort: 80, protocol: "tcp" }] },
    prevResult: {
      cniVersion: "1.0.0",
      interfaces: [{ name: "bench0" }, { name: "eth0", sandbox: netns }],
      ips: [{ address: "10.88.0.2/16", gateway: "10.88.0.1", interface: 1 }],
    },
  }
}

async function startPortmap(suite: Suite, count: number): Promise<Contender> {
  await using stack = new AsyncDisposableStack()
  const host = stack.use(await HostNamespace.create())
  const pod = await host.addContainer()
  await host.exec("ip", ["link", "add", "bench0", "up", "type", "bridge"])
  await host.exec("ip", ["address", "add", "10.88.0.1/16", "dev", "bench0"])
  const station = stack.use(Station.open(host))
  const bin = pluginPath(suite, "portmap")
  const config = portmapConfig(pod.path)
  const call = { bin, netns: pod.path, ifName: "eth0", path: suite.directory }
  const run = (verb: "ADD" | "DEL", containerId: string, input: object) =>
    station.time({ command: [bin], env: pluginEnv({ ...call, verb, containerId }), input: JSON.stringify(input) })
  const resident = { ...config.prevResult, ips: [{ address: "10.88.255.2/16", interface: 1 }] }
  const port = { hostPort: 8079, containerPort: 80, protocol: "tcp" }
  await run("ADD", "resident", { ...config, prevResult: resident, runtimeConfig: { portMappings: [port] } })
  await fillPortmap(count - 1)(host, suite)
  const kept = stack.move()
  let rounds = 0
  return {
    async round() {
      const containerId = `bench-${++rounds}`
      return { ADD: await run("ADD", containerId, config), DEL: await run("DEL", containerId, config) }
    },
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  }
}

const numbers = new Intl.NumberFormat("en")

export const withMappings = (suite: Suite["name"], count: number) => `${suite}, ${numbers.format(count)} mapped`

/** Returns the scenario of one port of one container, beside one other mapping and beside a thousand. */
export function portmaps(suites: readonly Suite[]): Scenario[] {
  const filled = suites.flatMap((suite) =>
    fillings.map((count) => [withMappings(suite.name, count), () => startPortmap(suite, count)] as const),
  )
  return [
    {
      name: "portmap",
      steps: ["ADD", "DEL"],
      contenders: Object.fromEntries(filled),
      baseline: withMappings("Go", 1),
    },
  ]
}
