import { join } from "node:path"
import {
  builtPlugins,
  type Chance,
  type ContainerNamespace,
  type HostNamespace,
  newest,
  type PluginCall,
  type PluginOutput,
  type PluginResult,
  runPlugin,
} from "../lab/mod.ts"
import { Gate } from "./gate.ts"
import { Tally } from "./tally.ts"

const names = ["lan-a", "lan-b"] as const
type Name = (typeof names)[number]

/** Returns the plugins of a network for the container with the unique number `number`. Both networks use one bridge. */
function pluginsOf(network: Name, number: number): ({ type: string } & Record<string, unknown>)[] {
  const subnet = { "lan-a": "10.50.0.0/16", "lan-b": "10.51.0.0/16" }[network]
  const portMappings = [{ hostPort: 20_000 + number, containerPort: 80, protocol: "tcp" }]
  return [
    {
      type: "bridge",
      bridge: "br-both",
      isDefaultGateway: true,
      ipMasq: true,
      macspoofchk: true,
      ipam: { type: "host-local", ranges: [[{ subnet }]] },
    },
    { type: "portmap", runtimeConfig: { portMappings } },
    { type: "firewall", backend: "nftables", ingressPolicy: "same-bridge" },
    { type: "bandwidth", ingressRate: "80M", egressRate: "80M" },
  ]
}

/** A slot for one container at a time. */
interface Place {
  readonly number: number
  readonly network: Name
  /** Allows only one operation at a time. */
  readonly gate: Gate
  /** The container. Undefined before the first container, and after the runtime forgot the container. */
  pod: ContainerNamespace | undefined
  /** The result of ADD, or undefined if there is no attachment. */
  result: PluginResult | undefined
  /** Whether DEL is running. The runtime then no longer lists the attachment as valid. */
  isLeaving: boolean
}

/** A container with an attachment, and the address that ADD assigned. */
export interface Living {
  readonly network: string
  readonly pod: ContainerNamespace
  readonly address: string
}

/**
 * A runtime with many containers in two networks on one bridge, which runs GC of both networks during ADD and DEL. The
 * list of valid attachments includes attachments whose ADD is running. An ADD that is missing from the list of a
 * running GC waits for the end of that GC, as the specification requires.
 */
export class TwoNetworks {
  readonly host: HostNamespace
  readonly tally = new Tally()
  /** All failures of calls, none of which is allowed. */
  readonly failures: string[] = []
  /** The names of containers that the runtime forgot without DEL. */
  readonly forgotten = new Set<string>()
  readonly calls = { ADD: 0, DEL: 0, GC: 0 }
  readonly #places: readonly Place[]
  readonly #chance: Chance
  /** The running GC of each network, and the number of finished ones. */
  readonly #collecting = new Map<Name, Promise<unknown>>()
  readonly #collected = new Map<Name, number>()

  constructor(host: HostNamespace, containers: number, chance: Chance) {
    this.host = host
    this.#chance = chance
    this.#places = Array.from({ length: containers }, (_, number) => ({
      number,
      network: names[number % names.length] as Name,
      gate: new Gate(),
      pod: undefined,
      result: undefined,
      isLeaving: false,
    }))
  }

  get living(): Living[] {
    return this.#places.flatMap(({ network, pod, result }) =>
      pod && result ? [{ network, pod, address: result.ips[0]?.address.replace(/\/.*/, "") ?? "" }] : [],
    )
  }

  /** Runs ADD in each slot, `workers` at a time. */
  async addAll(workers: number): Promise<void> {
    await each(this.#places, workers, (place) => this.#add(place))
  }

  /**
   * Runs `count` operations in random slots. A slot without an attachment runs ADD; others run DEL, or the container
   * ends without DEL.
   */
  async storm(workers: number, count: number): Promise<void> {
    const chosen = Array.from({ length: count }, () => this.#chance.of(this.#places))
    await each(chosen, workers, (place) => place.gate.alone(() => this.#step(place)))
  }

  async deleteAll(workers: number): Promise<void> {
    await each(this.#places, workers, async (place) => {
      if (place.result) await this.#delete(place)
    })
  }

  /** Runs GC of both networks repeatedly until `isOver` returns true. */
  async collectUntil(isOver: () => boolean): Promise<void> {
    await Promise.all(
      names.map(async (network) => {
        while (!isOver()) await this.collect(network)
      }),
    )
  }

  /** Waits until GC of each network has run that began after this call. */
  async collectedSince(): Promise<void> {
    const before = names.map((network) => (this.#collected.get(network) ?? 0) + 2) // a running GC has an older list
    while (names.some((network, at) => (this.#collected.get(network) ?? 0) < (before[at] ?? 0))) {
      await Promise.race(names.flatMap((network) => this.#collecting.get(network) ?? []))
    }
  }

  /** Runs GC of all plugins of a network with one list of valid attachments. */
  async collect(network: Name): Promise<void> {
    const known = this.#places.flatMap(({ network: other, pod, isLeaving }) =>
      other === network && pod && !isLeaving ? [{ containerID: pod.name, ifname: "eth0" }] : [],
    )
    const collecting = this.#chain("GC", network, pluginsOf(network, 0), () => ({ "cni.dev/valid-attachments": known }))
    this.#collecting.set(network, collecting)
    await collecting
    this.#collected.set(network, (this.#collected.get(network) ?? 0) + 1)
  }

  async #step(place: Place): Promise<void> {
    if (place.result === undefined) return this.#add(place)
    const fate = this.#chance.below(100)
    if (fate >= 30) return this.#delete(place)
    const pod = place.pod as ContainerNamespace
    await this.host.removeContainer(pod)
    if (fate >= 15) await this.#delete(place)
    else this.forgotten.add(pod.name)
    place.pod = undefined
    place.result = undefined
  }

  async #add(place: Place): Promise<void> {
    const { network, number } = place
    if (!place.pod) {
      place.pod = await this.host.addContainer()
      await this.#collecting.get(network)
    }
    let result: PluginResult | undefined
    await this.#chain(
      "ADD",
      network,
      pluginsOf(network, number),
      () => result && { prevResult: result },
      place.pod,
      (output) => {
        result = output.json as PluginResult
      },
    )
    place.result = result
  }

  async #delete(place: Place): Promise<void> {
    const { network, number, pod, result } = place
    place.isLeaving = this.#chance.below(2) === 0
    place.result = undefined
    await this.#chain("DEL", network, pluginsOf(network, number).toReversed(), () => ({ prevResult: result }), pod)
    if (place.isLeaving) await this.#collecting.get(network) // a running GC does not list the next ADD of this container
    place.isLeaving = false
  }

  async #chain(
    verb: keyof TwoNetworks["calls"],
    network: Name,
    plugins: ReturnType<typeof pluginsOf>,
    more: () => object | undefined,
    pod?: ContainerNamespace,
    answered: (output: PluginOutput) => void = () => {},
  ): Promise<void> {
    this.calls[verb]++
    const place: Partial<PluginCall> = pod ? { containerId: pod.name, netns: pod.path, ifName: "eth0" } : {}
    for (const plugin of plugins) {
      const config = { cniVersion: newest, name: network, ...plugin, ...more() }
      const bin = join(builtPlugins, plugin.type)
      const output = await runPlugin(this.host, { bin, verb, config, ...place })
      if (this.tally.note(`${verb} ${plugin.type}`, output, false)) answered(output)
      else this.failures.push(`${verb} ${network} ${plugin.type} of ${pod?.name}: ${output.stdout}${output.stderr}`)
    }
  }
}

async function each<T>(all: readonly T[], workers: number, act: (one: T) => Promise<void>): Promise<void> {
  const waiting = [...all]
  const work = async () => {
    for (let one = waiting.shift(); one !== undefined; one = waiting.shift()) await act(one)
  }
  await Promise.all(Array.from({ length: workers }, work))
}
