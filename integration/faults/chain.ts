import {
  Attachment,
  type Change,
  type ContainerNamespace,
  chooseIptables,
  diffSnapshots,
  formatChanges,
  gatewayBridge,
  type HostNamespace,
  hostFor,
  type IptablesKind,
  interfacePlugin,
  newest,
  type PluginCall,
  type PluginResult,
  pluginRow,
  type Snapshot,
  succeed,
  takeSnapshot,
  waitFor,
} from "../lab/mod.ts"

/** The plugins of a network in the order in which a runtime calls them. */
export interface Chain {
  readonly plugins: readonly { readonly type: string; readonly keys: object }[]
  /** The indexes of the plugins that a test kills; by default all. */
  readonly killed?: readonly number[]
  readonly iptables?: IptablesKind
}

/** The network and the port of all attachments in this file. */
const place = { network: "lab", port: 8080 } as const

/**
 * Returns the chain for tests that kill a plugin, with a configuration that enables as much as possible. A chained
 * plugin runs after bridge.
 */
export function chainOf(plugin: string): Chain {
  const row = pluginRow(plugin)
  const own = row.role === "interface" ? interfacePlugin(plugin).network(interfacePlugin(plugin).everything) : {}
  const one = { type: plugin, keys: row.role === "interface" ? own : row.keys(place) }
  if (row.role !== "chained") return { plugins: [one] }
  return { plugins: [{ type: "bridge", keys: gatewayBridge("lab") }, one], killed: [1] }
}

/**
 * Reports whether host-local leaves a change on purpose: its lock, its position in the pool, and its index. Returns
 * false for index files that exist only during a call.
 */
function isTrace({ section, line }: Change): boolean {
  if (section !== "/var/lib/cni") return false
  return /^\/var\/lib\/cni\/networks\/[^/]+\/(lock |last_reserved_ip\.|\.index\/((owners|used|seal)\b|new\/$|$))/.test(
    line,
  )
}

/** A host with one container and its plugin chain. It compares the current state with a recorded state. */
export class ChainHost implements AsyncDisposable {
  readonly host: HostNamespace
  readonly chain: Chain
  readonly #role: string
  #pod: ContainerNamespace
  #before: Snapshot = {}
  #inside: Snapshot = {}
  /** The result of the last plugin after all ADDs. */
  answer: PluginResult | undefined

  private constructor(host: HostNamespace, pod: ContainerNamespace, chain: Chain) {
    this.host = host
    this.chain = chain
    this.#pod = pod
    this.#role = pluginRow(chain.plugins[0]?.type ?? "").role
  }

  /**
   * Creates the host. Adds and deletes the container once, so that the host has the objects that DEL leaves on purpose.
   */
  static async create(chain: Chain): Promise<ChainHost> {
    const host = await hostFor(...chain.plugins.map(({ type }) => type))
    if (chain.iptables) await chooseIptables(host, chain.iptables)
    const scene = new ChainHost(host, await host.addContainer(), chain)
    await scene.add()
    await scene.del()
    await scene.remember()
    return scene
  }

  /**
   * Records the current state as the expected state. Waits first for delayed changes by the kernel, such as IPv6
   * routes.
   */
  async remember(): Promise<void> {
    await waitFor(async () => {
      const [before, inside] = [this.#before, this.#inside]
      this.#before = await takeSnapshot(this.host)
      this.#inside = await takeSnapshot(this.#pod)
      return diffSnapshots(before, this.#before).length + diffSnapshots(inside, this.#inside).length === 0
    }, "the kernel")
  }

  get #attachments(): Attachment[] {
    const ifName = this.#role === "loopback" ? "lo" : "eth0"
    const common = { cniVersion: newest, name: "lab" }
    return this.chain.plugins.map(
      ({ type, keys }) => new Attachment(this.host, this.#pod, { ...common, type, ...keys }, { ifName }),
    )
  }

  /** Returns the attachments in the order in which a runtime calls `verb`. A runtime calls DEL in reverse order. */
  calls(verb: PluginCall["verb"]): { at: number; attachment: Attachment }[] {
    const inOrder = this.#attachments.map((attachment, at) => ({ at, attachment }))
    return verb === "DEL" ? inOrder.reverse() : inOrder
  }

  /** Runs ADD of the plugins before index `end`. Returns `prevResult` for the next plugin, in an object. */
  async add(end = this.chain.plugins.length): Promise<object> {
    let input: object = {}
    for (const { attachment } of this.calls("ADD").slice(0, end)) {
      this.answer = await attachment.add(input)
      input = { prevResult: this.answer }
    }
    return input
  }

  /** Runs DEL of the whole chain. `keysOf` changes the configuration of each plugin before `keys` are added. */
  async del(keys: object = {}, call: Partial<PluginCall> = {}, keysOf = (own: object): object => own): Promise<void> {
    for (const { attachment } of this.calls("DEL")) {
      const config = keysOf(attachment.config)
      await succeed(attachment.run("DEL", {}, { ...call, config: { ...config, ...keys } }))
    }
  }

  /** Runs GC of the whole chain with an empty list of valid attachments. */
  async collect(): Promise<void> {
    for (const { attachment } of this.calls("GC")) await succeed(attachment.run("GC", nothingValid))
  }

  /** Removes the container. Call `replaceContainer` before the next ADD. */
  async removeContainer(): Promise<void> {
    await this.host.removeContainer(this.#pod)
  }

  async replaceContainer(): Promise<void> {
    this.#pod = await this.host.addContainer()
    if (this.#role === "loopback")
      // Once `lo` was up, it keeps 127.0.0.1 when it goes down.
      for (const state of ["up", "down"]) await this.#pod.exec("ip", ["link", "set", "lo", state])
    this.#inside = await takeSnapshot(this.#pod)
  }

  /** Reports whether the plugin moves a device of the host to the container. */
  get movesDevice(): boolean {
    return this.#role === "device"
  }

  /** Returns the differences on the host as text, or "" if there are none. */
  async hostChanges(isAllowed: (change: Change) => boolean = () => false): Promise<string> {
    return changes(this.#before, await takeSnapshot(this.host), (change) => isTrace(change) || isAllowed(change))
  }

  /** Returns the differences in the container as text, or "" if there are none. */
  async containerChanges(): Promise<string> {
    return changes(this.#inside, await takeSnapshot(this.#pod), () => false)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.host[Symbol.asyncDispose]()
  }
}

/** The keys of a GC call for which no attachment is valid. */
export const nothingValid = { "cni.dev/valid-attachments": [] }

function changes(before: Snapshot, after: Snapshot, isAllowed: (change: Change) => boolean): string {
  return formatChanges(diffSnapshots(before, after).filter((change) => !isAllowed(change)))
}
