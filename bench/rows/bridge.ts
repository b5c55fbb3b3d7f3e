import { HostNamespace, pluginEnv, TemporaryDirectory } from "../../integration/mod.ts"
import type { Contender, Scenario } from "../measure.ts"
import { Station } from "../station.ts"
import { pluginPath, suites } from "../suites.ts"

/** A bridge with gateway and host-local addresses, in the newest version that both suites speak. */
function bridgeConfig(ipMasq: boolean, dataDir: string) {
  const ipam = { type: "host-local", dataDir, ranges: [[{ subnet: "10.88.0.0/16" }]], routes: [{ dst: "0.0.0.0/0" }] }
  return { cniVersion: "1.0.0", name: "bench", type: "bridge", bridge: "bench0", isGateway: true, ipMasq, ipam }
}

/** Times ADD, and DEL with the result of ADD, of one suite on a host of its own; each round leaves the host as it was. */
async function startBridge(suite: keyof typeof suites, ipMasq: boolean): Promise<Contender> {
  await using stack = new AsyncDisposableStack()
  const host = stack.use(await HostNamespace.create())
  const pod = await host.addContainer()
  // On a disk, as in real life: a suite that makes its leases durable pays for it here.
  const directory = stack.use(await TemporaryDirectory.create("cni-bench", "/var/tmp"))
  const station = stack.use(Station.open(host))
  const config = bridgeConfig(ipMasq, directory.path)
  const bin = pluginPath(suite, "bridge")
  const kept = stack.move()
  let rounds = 0
  return {
    async round() {
      const call = { bin, containerId: `bench-${++rounds}`, netns: pod.path, ifName: "eth0", path: suites[suite] }
      const run = (verb: "ADD" | "DEL", input: object) =>
        station.time({ command: [bin], env: pluginEnv({ ...call, verb }), input: JSON.stringify(input) })
      const add = await run("ADD", config)
      const del = await run("DEL", { ...config, prevResult: JSON.parse(add.stdout) })
      return { ADD: add.ms, DEL: del.ms }
    },
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  }
}

function bridgeScenario(name: string, ipMasq: boolean): Scenario {
  return {
    name,
    steps: ["ADD", "DEL"],
    contenders: { ours: () => startBridge("ours", ipMasq), Go: () => startBridge("Go", ipMasq) },
    baseline: "Go",
    ...(ipMasq ? { targets: { ours: { ADD: 0.6, DEL: 0.6 } } } : {}),
  }
}

/** A pod's first plugin: bridge with host-local, with and without masquerade. */
export const bridges: readonly Scenario[] = [
  bridgeScenario("bridge+host-local", false),
  bridgeScenario("bridge+host-local+ipMasq", true),
]
