import {
  type ContainerNamespace,
  type HostNamespace,
  type PluginCall,
  type PluginOutput,
  type PluginResult,
  runPlugin,
} from "../lab/mod.ts"
import { Gate } from "./gate.ts"
import { Ledger } from "./ledger.ts"
import {
  addDevice,
  executableOf,
  mayJoin,
  type PluginKeys,
  type StormNetwork,
  stormNetworks,
} from "./storm-networks.ts"
import { Tally } from "./tally.ts"

/** The timeout of one plugin call, in milliseconds. */
const deadlineMs = 60_000

/** The random choices for one operation, which depend only on the seed. */
export interface Choices {
  readonly slot: number
  readonly network: number
  /** Numbers below 100. */
  readonly verb: number
  readonly fate: number
  /** The index of the plugin to kill, and the delay in milliseconds. Undefined for an operation without a kill. */
  readonly kill: { readonly at: number; readonly ms: number } | undefined
}

/** A slot for one container at a time, with its state in the runtime. */
interface Slot {
  readonly number: number
  pod: ContainerNamespace | undefined
  network: StormNetwork | undefined
  /** `unsure` means that an ADD or DEL failed, so only DEL may follow. */
  state: "none" | "attached" | "unsure"
  result: PluginResult | undefined
  readonly gate: Gate
}

/** A runtime with many containers that calls plugins according to the specification. */
export class Storm {
  readonly host: HostNamespace
  readonly ledger = new Ledger()
  readonly tally = new Tally()
  readonly #slots: readonly Slot[]
  readonly #gates = new Map(stormNetworks.map(({ name }) => [name, new Gate()]))
  /** The number of attachments that the runtime has forgotten without DEL. */
  forgotten = 0
  /** The calls for each container, printed if objects of the container remain. */
  readonly calls = new Map<string, string[]>()

  constructor(host: HostNamespace, containers: number) {
    this.host = host
    this.#slots = Array.from({ length: containers }, (_, number) => ({
      number,
      pod: undefined,
      network: undefined,
      state: "none" as const,
      result: undefined,
      gate: new Gate(),
    }))
  }

  /** The containers that the runtime considers attached. */
  get attached(): ContainerNamespace[] {
    return this.#slots.flatMap(({ state, pod }) => (state === "attached" && pod ? [pod] : []))
  }

  get pods(): ContainerNamespace[] {
    return this.#slots.flatMap(({ pod }) => pod ?? [])
  }

  /**
   * The containers whose interfaces were created by plugins of this suite. A saboteur may rename such an interface,
   * because its alias names the owner.
   */
  get ownPods(): ContainerNamespace[] {
    return this.#slots.flatMap(({ pod, network }) => (pod && network?.cniVersion !== "1.0.0" ? [pod] : []))
  }

  /** Runs one operation on the container of a slot. The operation is valid in the slot's state. */
  async step({ slot: number, network, verb, fate, kill }: Choices): Promise<void> {
    const slot = this.#slots[number] as Slot
    await slot.gate.alone(async () => {
      const current = slot.network
      if (slot.state === "none" || current === undefined) {
        const joinable = stormNetworks.filter((one) => mayJoin(one, number))
        await this.#add(slot, joinable[network % joinable.length] as StormNetwork, kill)
      } else if (slot.state === "attached" && verb < 35) await this.#check(slot, current)
      else if (slot.state === "attached" && verb < 42) await this.#status(current)
      else if (verb >= 42 && verb < 47) await this.collect(current)
      else {
        if (fate < 25) await this.#end(slot)
        if (fate < 10 && current.mayBeForgotten) this.#forget(slot)
        else await this.#delete(slot, current, fate, kill)
      }
    })
  }

  /** Attaches a container to each network, as far as slots are free. */
  async addEach(): Promise<void> {
    for (const network of stormNetworks) {
      const free = this.#slots.find(({ state, number }) => state === "none" && mayJoin(network, number))
      if (free) await this.#add(free, network, undefined)
    }
  }

  /** Deletes all attachments, `parallel` at a time. Returns the messages of failed DELs. */
  async deleteAll(parallel: number): Promise<string[]> {
    const waiting = this.#slots.filter(({ state }) => state !== "none")
    const failed: string[] = []
    const work = async () => {
      for (let slot = waiting.shift(); slot?.network; slot = waiting.shift()) {
        const error = await this.#delete(slot, slot.network, 100, undefined)
        if (error) failed.push(error)
      }
    }
    await Promise.all(Array.from({ length: parallel }, work))
    return failed
  }

  /**
   * Runs GC of all plugins of a network. No other calls run during GC, as the specification requires. Returns the
   * failures.
   */
  async collect(network: StormNetwork): Promise<string[]> {
    return this.#gateOf(network).alone(async () => {
      const known = this.#slots.flatMap(({ state, pod, network: other }) =>
        state !== "none" && pod && other?.name === network.name ? [{ containerID: pod.name, ifname: "eth0" }] : [],
      )
      const ours = stormNetworks.find(({ name }) => name === network.name) ?? network
      const failed: string[] = []
      for (const plugin of ours.plugins(0)) {
        const config = { "cni.dev/valid-attachments": known }
        const output = await this.#call("GC", ours, plugin, config, {})
        if (output.exitCode !== 0) failed.push(`GC ${network.name} ${plugin.type}: ${output.stdout}`)
      }
      return failed
    })
  }

  async #add(slot: Slot, network: StormNetwork, kill: Choices["kill"]): Promise<void> {
    slot.pod ??= await this.host.addContainer()
    const pod = slot.pod
    const plugins = network.plugins(slot.number)
    if (plugins[0]?.type === "host-device") await addDevice(this.host, slot.number)
    await this.#gateOf(network).together(async () => {
      slot.network = network
      slot.state = "unsure"
      let result: PluginResult | undefined
      for (const [at, plugin] of plugins.entries()) {
        const call = { ...this.#place(pod), ...killing(kill, at, plugins) }
        const output = await this.#call("ADD", network, plugin, result && { prevResult: result }, call)
        if (output.exitCode !== 0) return
        result = output.json as PluginResult
      }
      slot.result = result
      slot.state = "attached"
      const addresses = result?.ips.map(({ address }) => address) ?? []
      this.ledger.hold(pod.name, addresses)
    })
  }

  async #check(slot: Slot, network: StormNetwork): Promise<void> {
    if (slot.pod === undefined || slot.result === undefined) return
    if (network.cniVersion === "1.0.0") return // only DEL deletes objects of the Go plugins
    for (const plugin of network.plugins(slot.number)) {
      await this.#call("CHECK", network, plugin, { prevResult: slot.result }, this.#place(slot.pod))
    }
  }

  async #status(network: StormNetwork): Promise<void> {
    const ours = stormNetworks.find(({ name }) => name === network.name) ?? network
    for (const plugin of ours.plugins(0)) await this.#call("STATUS", ours, plugin, {}, {})
  }

  /** Runs DEL of the chain. Stops at the first failing plugin, as runtimes do, and returns its message. */
  async #delete(slot: Slot, network: StormNetwork, fate: number, kill: Choices["kill"]): Promise<string | undefined> {
    const { pod, result } = slot
    if (pod === undefined) return undefined
    this.ledger.release(pod.name)
    slot.state = "unsure"
    const isGone = this.#gone.has(pod)
    return await this.#gateOf(network).together(async () => {
      const plugins = network.plugins(slot.number).toReversed()
      for (const [at, plugin] of plugins.entries()) {
        const more = result === undefined || fate % 3 === 0 ? {} : { prevResult: result }
        const netns = isGone && fate % 2 === 0 ? "" : pod.path
        const call = { ...this.#place(pod), netns, ...killing(kill, at, plugins) }
        const output = await this.#call("DEL", network, plugin, more, call)
        if (output.exitCode !== 0) return `DEL ${network.name} ${plugin.type} of ${pod.name}: ${output.stdout}`
      }
      slot.state = "none"
      slot.result = undefined
      if (isGone) slot.pod = undefined
      return undefined
    })
  }

  readonly #gone = new Set<ContainerNamespace>()

  /** Ends the container before its DEL. */
  async #end({ pod }: Slot): Promise<void> {
    if (pod === undefined || this.#gone.has(pod)) return
    this.#gone.add(pod)
    await this.host.removeContainer(pod)
  }

  /** Makes the runtime forget an ended container, so that only GC cleans up. */
  #forget(slot: Slot): void {
    if (slot.pod) this.ledger.release(slot.pod.name)
    this.forgotten++
    slot.pod = undefined
    slot.state = "none"
    slot.result = undefined
  }

  #gateOf({ name }: StormNetwork): Gate {
    return this.#gates.get(name) as Gate
  }

  #place(pod: ContainerNamespace): Partial<PluginCall> {
    return { containerId: pod.name, netns: pod.path, ifName: "eth0" }
  }

  async #call(
    verb: PluginCall["verb"],
    network: StormNetwork,
    plugin: PluginKeys,
    more: object | undefined,
    call: Partial<PluginCall>,
  ): Promise<PluginOutput> {
    const bin = executableOf(network, plugin, verb)
    const config = { cniVersion: network.cniVersion, name: network.name, ...plugin, ...more }
    const output = await runPlugin(this.host, { bin, verb, config, timeoutMs: deadlineMs, ...call })
    const id = call.containerId ?? ""
    const line = `${verb} ${network.name} ${plugin.type}: ${output.exitCode}${call.under ? ", killed" : ""}`
    this.calls.set(id, [...(this.calls.get(id) ?? []).slice(-60), line])
    const isTheirs = verb === "ADD" && network.cniVersion === "1.0.0"
    if (!isTheirs) this.tally.note(`${verb} ${plugin.type}`, output, call.under !== undefined)
    return output
  }
}

/** Returns the options that kill the plugin at this index, or none. */
function killing(kill: Choices["kill"], at: number, plugins: readonly PluginKeys[]): Partial<PluginCall> {
  if (kill === undefined || kill.at % plugins.length !== at) return {}
  return { under: ["timeout", "--foreground", "--signal=KILL", `${kill.ms / 1000}`] }
}
