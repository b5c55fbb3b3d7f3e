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

/** The plugins of a network in their order, as a runtime calls them. */
export interface Chain {
  readonly plugins: readonly { readonly type: string; readonly keys: object }[]
  /** Which of them are killed, by their place; by default all. */
  readonly killed?: readonly number[]
  readonly iptables?: IptablesKind
}

/** A host port, and a number from which a plugin has its device or VLAN. */
const place = { network: "lab", port: 8080 } as const

/** What a plugin is killed in by itself: with as much to do as there is; a chained one behind bridge. */
export function chainOf(plugin: string): Chain {
  const row = pluginRow(plugin)
  const own = row.role === "interface" ? interfacePlugin(plugin).network(interfacePlugin(plugin).everything) : {}
  const one = { type: plugin, keys: row.role === "interface" ? own : row.keys(place) }
  if (row.role !== "chained") return { plugins: [one] }
  return { plugins: [{ type: "bridge", keys: gatewayBridge("lab") }, one], killed: [1] }
}

/** Changes that host-local leaves on purpose: its lock, the place in the pool, and its index when nothing is on its way. */
function isTrace({ section, line }: Change): boolean {
  if (section !== "/var/lib/cni") return false
  return /^\/var\/lib\/cni\/networks\/[^/]+\/(lock |last_reserved_ip\.|\.index\/((owners|used|seal)\b|new\/$|$))/.test(
    line,
  )
}

/** One container on a host, and a chain that it is attached by: what was there before, and what differs now. */
export class ChainHost implements AsyncDisposable {
  readonly host: HostNamespace
  readonly chain: Chain
  readonly #role: string
  #pod: ContainerNamespace
  #before: Snapshot = {}
  #inside: Snapshot = {}
  /** What the last plugin answered when all were added. */
  answer: PluginResult | undefined

  private constructor(host: HostNamespace, pod: ContainerNamespace, chain: Chain) {
    this.host = host
    this.chain = chain
    this.#pod = pod
    this.#role = pluginRow(chain.plugins[0]?.type ?? "").role
  }

  /** Attaches a container once, so that what stays on purpose is there already. */
  static async create(chain: Chain): Promise<ChainHost> {
    const host = await hostFor(...chain.plugins.map(({ type }) => type))
    if (chain.iptables) await chooseIptables(host, chain.iptables)
    const scene = new ChainHost(host, await host.addContainer(), chain)
    await scene.add()
    await scene.del()
    await scene.remember()
    return scene
  }

  /** Takes what is there now for what has to be there, when the kernel has done what it does in its own time, as IPv6's routes. */
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

  /** The attachments that a verb is called for, in its order: DEL goes backwards. */
  calls(verb: PluginCall["verb"]): { at: number; attachment: Attachment }[] {
    const inOrder = this.#attachments.map((attachment, at) => ({ at, attachment }))
    return verb === "DEL" ? inOrder.reverse() : inOrder
  }

  /** Adds the container by the plugins before `end`; answers what the next one is told. */
  async add(end = this.chain.plugins.length): Promise<object> {
    let told: object = {}
    for (const { attachment } of this.calls("ADD").slice(0, end)) {
      this.answer = await attachment.add(told)
      told = { prevResult: this.answer }
    }
    return told
  }

  /** DEL of the whole chain; `keysOf` answers the configuration that a plugin is called with. */
  async del(keys: object = {}, call: Partial<PluginCall> = {}, keysOf = (own: object): object => own): Promise<void> {
    for (const { attachment } of this.calls("DEL")) {
      const config = keysOf(attachment.config)
      await succeed(attachment.run("DEL", {}, { ...call, config: { ...config, ...keys } }))
    }
  }

  /** GC of the whole chain: no attachment is valid. */
  async collect(): Promise<void> {
    for (const { attachment } of this.calls("GC")) await succeed(attachment.run("GC", nothingValid))
  }

  /** Removes the container; what comes later is about another. */
  async removeContainer(): Promise<void> {
    await this.host.removeContainer(this.#pod)
  }

  async replaceContainer(): Promise<void> {
    this.#pod = await this.host.addContainer()
    if (this.#role === "loopback")
      // Once it has been up, the kernel's own `lo` keeps 127.0.0.1 when it goes down.
      for (const state of ["up", "down"]) await this.#pod.exec("ip", ["link", "set", "lo", state])
    this.#inside = await takeSnapshot(this.#pod)
  }

  /** Whether the container's interface is a device of the host. */
  get movesDevice(): boolean {
    return this.#role === "device"
  }

  /** What of the host differs, as text; "" when all is as before. */
  async hostChanges(isAllowed: (change: Change) => boolean = () => false): Promise<string> {
    return changes(this.#before, await takeSnapshot(this.host), (change) => isTrace(change) || isAllowed(change))
  }

  /** What of the container differs. */
  async containerChanges(): Promise<string> {
    return changes(this.#inside, await takeSnapshot(this.#pod), () => false)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.host[Symbol.asyncDispose]()
  }
}

/** Keys by which GC is told that no attachment is valid. */
export const nothingValid = { "cni.dev/valid-attachments": [] }

function changes(before: Snapshot, after: Snapshot, isAllowed: (change: Change) => boolean): string {
  return formatChanges(diffSnapshots(before, after).filter((change) => !isAllowed(change)))
}
