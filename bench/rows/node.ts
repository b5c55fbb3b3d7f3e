import { HostNamespace, type Job, pluginEnv, Station, TemporaryDirectory, total } from "../../integration/lab/mod.ts"
import type { Contender } from "../measure.ts"
import { pluginPath, type Suite } from "../suites.ts"

/** Returns the plugins of a pod's network with their configurations. The measured pod has the number 0. */
export type ChainOf = (dataDir: string, pod: number) => { type: string }[]

export interface Pod {
  readonly index: number
  readonly containerId: string
  readonly netns: string
}

/** A host with the plugins of one suite, and a directory on disk. */
export class Node implements AsyncDisposable {
  readonly host: HostNamespace
  readonly station: Station
  readonly dataDir: string
  readonly #suite: Suite
  readonly #chainOf: ChainOf
  readonly #kept: AsyncDisposableStack

  private constructor(
    host: HostNamespace,
    dataDir: string,
    kept: AsyncDisposableStack,
    { suite, chainOf }: { suite: Suite; chainOf: ChainOf },
  ) {
    this.host = host
    this.station = kept.use(Station.open(host))
    this.dataDir = dataDir
    this.#suite = suite
    this.#chainOf = chainOf
    this.#kept = kept
  }

  static async open(suite: Suite, chainOf: ChainOf): Promise<Node> {
    await using stack = new AsyncDisposableStack()
    const host = stack.use(await HostNamespace.create())
    const directory = stack.use(await TemporaryDirectory.create("cni-bench", "/var/tmp"))
    return new Node(host, directory.path, stack.move(), { suite, chainOf })
  }

  /** Returns the calls that attach a pod. Each plugin gets the result of the previous plugin. */
  adds(pod: Pod): Job[] {
    const chain = this.#chainOf(this.dataDir, pod.index)
    return chain.map((plugin, at) => ({ ...this.#call("ADD", plugin, pod), takesResult: at > 0 }))
  }

  /** Returns the calls that detach a pod, in reverse order. Each plugin gets `result`, that of the whole ADD. */
  dels(pod: Pod, result: string): Job[] {
    const chain = this.#chainOf(this.dataDir, pod.index).toReversed()
    const prevResult: unknown = JSON.parse(result)
    return chain.map((plugin) => this.#call("DEL", Object.assign(plugin, { prevResult }), pod))
  }

  /** Attaches pods that stay until the node is disposed of. */
  async populate(pods: number): Promise<void> {
    for (let index = 1; index <= pods; index++) {
      const { path } = await this.host.addContainer()
      await this.station.run([this.adds({ index, containerId: `resident-${index}`, netns: path })])
    }
  }

  #call(verb: "ADD" | "DEL", plugin: { type: string }, { containerId, netns }: Pod): Job {
    const bin = pluginPath(this.#suite, plugin.type)
    const env = pluginEnv({ bin, verb, containerId, netns, ifName: "eth0", path: this.#suite.directory })
    return { command: [bin], env, input: JSON.stringify(plugin) }
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#kept.disposeAsync()
  }
}

/** Starts a contender that times ADD and DEL of a pod's chain beside other pods. `setUp` prepares the node. */
export async function startNode(
  suite: Suite,
  chainOf: ChainOf,
  pods: number,
  setUp: (host: HostNamespace) => Promise<unknown> = async () => {},
): Promise<Contender> {
  const node = await Node.open(suite, chainOf)
  await setUp(node.host)
  await node.populate(pods)
  const { path: netns } = await node.host.addContainer()
  let rounds = 0
  return {
    async round() {
      const pod = { index: 0, containerId: `bench-${++rounds}`, netns }
      const added = (await node.station.run([node.adds(pod)])).outcomes.flat()
      const deleted = (await node.station.run([node.dels(pod, added.at(-1)?.stdout ?? "")])).outcomes.flat()
      return { ADD: total(added), DEL: total(deleted) }
    },
    [Symbol.asyncDispose]: () => node[Symbol.asyncDispose](),
  }
}
