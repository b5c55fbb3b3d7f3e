import { HostNamespace, pluginEnv, TemporaryDirectory } from "../../integration/mod.ts"
import type { Contender } from "../measure.ts"
import { Station } from "../station.ts"
import { pluginPath, suites } from "../suites.ts"

export type Suite = keyof typeof suites
type Verb = "ADD" | "DEL"

/** Pods that live on a node for as long as the measurement takes: one, and as many as a kubelet takes by default. */
export const residents = [1, 110] as const

/** The plugins of a pod's network, as a runtime hands them their configurations; `pod` is 0 for the one that is measured. */
export type ChainOf = (dataDir: string, pod: number) => { type: string }[]

/**
 * Makes a host of one suite with pods on it, and times the calls that a runtime makes there for one more: each plugin's
 * ADD in their order, each plugin's DEL backwards.
 */
export async function startNode(suite: Suite, chainOf: ChainOf, pods: number): Promise<Contender> {
  await using stack = new AsyncDisposableStack()
  const host = stack.use(await HostNamespace.create())
  // On a disk, as in real life: a suite that makes its files durable pays for it here.
  const directory = stack.use(await TemporaryDirectory.create("cni-bench", "/var/tmp"))
  const station = stack.use(Station.open(host))
  let last: { prevResult?: unknown } = {}

  async function call(verb: Verb, plugin: { type: string }, containerId: string, netns: string): Promise<number> {
    const bin = pluginPath(suite, plugin.type)
    const env = pluginEnv({ bin, verb, containerId, netns, ifName: "eth0", path: suites[suite] })
    const { ms, stdout } = await station.time({ command: [bin], env, input: JSON.stringify({ ...plugin, ...last }) })
    if (verb === "ADD") last = { prevResult: JSON.parse(stdout) }
    return ms
  }

  for (let pod = 1; pod <= pods; pod++) {
    const { path } = await host.addContainer()
    last = {}
    for (const plugin of chainOf(directory.path, pod)) await call("ADD", plugin, `resident-${pod}`, path)
  }
  const { path } = await host.addContainer()
  const chain = chainOf(directory.path, 0)
  const kept = stack.move()
  let rounds = 0
  return {
    async round() {
      const containerId = `bench-${++rounds}`
      const times = { ADD: 0, DEL: 0 }
      last = {}
      for (const plugin of chain) times.ADD += await call("ADD", plugin, containerId, path)
      for (const plugin of chain.toReversed()) times.DEL += await call("DEL", plugin, containerId, path)
      return times
    },
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  }
}
