import { HostNamespace, pluginEnv, Station } from "../../integration/lab/mod.ts"
import type { Contender, Scenario } from "../measure.ts"
import { pluginPath, type Suite } from "../suites.ts"
import { fillSameBridge } from "./filling.ts"

/** The numbers of accepted containers on the host before the measurement. */
const fillings = [0, 1_000] as const

/** Returns the configuration with nerdctl's policy, in the newest version that both suites support. */
function firewallConfig(netns: string) {
  return {
    cniVersion: "1.0.0",
    name: "bench",
    type: "firewall",
    ingressPolicy: "same-bridge",
    prevResult: {
      cniVersion: "1.0.0",
      interfaces: [{ name: "bench0" }, { name: "vethbench" }, { name: "eth0", sandbox: netns }],
      ips: [{ address: "10.88.0.2/16", gateway: "10.88.0.1", interface: 2 }],
    },
  }
}

async function startFirewall(suite: Suite, count: number): Promise<Contender> {
  await using stack = new AsyncDisposableStack()
  const host = stack.use(await HostNamespace.create())
  const pod = await host.addContainer()
  const station = stack.use(Station.open(host))
  const bin = pluginPath(suite, "firewall")
  const config = firewallConfig(pod.path)
  const call = { bin, netns: pod.path, ifName: "eth0", path: suite.directory }
  const run = (verb: "ADD" | "DEL", containerId: string) =>
    station.time({ command: [bin], env: pluginEnv({ ...call, verb, containerId }), input: JSON.stringify(config) })
  if (count > 0) {
    await run("ADD", "bench-0")
    await fillSameBridge(count)(host, suite)
  }
  const kept = stack.move()
  let rounds = 0
  return {
    async round() {
      const containerId = `bench-${++rounds}`
      return { ADD: await run("ADD", containerId), DEL: await run("DEL", containerId) }
    },
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  }
}

const numbers = new Intl.NumberFormat("en")

export const withContainers = (suite: Suite["name"], count: number) => `${suite}, beside ${numbers.format(count)}`

/**
 * Returns the scenario of policy "same-bridge", alone and beside a thousand containers, in nf_tables and Go's iptables.
 */
export function firewalls(suites: readonly Suite[]): Scenario[] {
  const filled = suites.flatMap((suite) =>
    fillings.map((count) => [withContainers(suite.name, count), () => startFirewall(suite, count)] as const),
  )
  return [
    {
      name: "firewall",
      steps: ["ADD", "DEL"],
      contenders: Object.fromEntries(filled),
      baseline: withContainers("Go", 0),
    },
  ]
}
