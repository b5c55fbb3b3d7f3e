import { join } from "node:path"
import {
  type ContainerNamespace,
  type HostNamespace,
  type Outcome,
  pluginEnv,
  Station,
} from "../../integration/lab/mod.ts"

const bin = join(import.meta.dir, "../../dist/bin")
const conflist = Bun.file(join(import.meta.dir, "10-demo.conflist"))

export interface Result {
  readonly ips: readonly { readonly address: string }[]
}

/** The demo's container runtime, which runs the only plugin of the list and keeps the result of ADD. */
export class Runtime implements AsyncDisposable {
  readonly #station: Station
  readonly #results = new Map<ContainerNamespace, Result>()

  constructor(host: HostNamespace) {
    this.#station = Station.open(host)
  }

  async add(container: ContainerNamespace): Promise<{ result: Result; ms: number }> {
    const { stdout, ms } = await this.#call("ADD", container)
    const result = JSON.parse(stdout) as Result
    this.#results.set(container, result)
    return { result, ms }
  }

  /** Runs CHECK or DEL. Returns the duration in milliseconds. */
  async call(verb: "CHECK" | "DEL", container: ContainerNamespace): Promise<number> {
    return (await this.#call(verb, container)).ms
  }

  /** Runs the plugin once, and measures the time from the process's start to its end. Throws if the plugin fails. */
  async #call(verb: "ADD" | "CHECK" | "DEL", container: ContainerNamespace): Promise<Outcome> {
    const { plugins, ...network } = await conflist.json()
    const [plugin] = plugins
    const call = { bin: join(bin, plugin.type), containerId: container.name, netns: container.path, ifName: "eth0" }
    const config = { ...network, ...plugin, prevResult: this.#results.get(container) }
    return this.#station.time({
      command: [call.bin],
      env: pluginEnv({ ...call, verb }),
      input: JSON.stringify(config),
    })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#station[Symbol.asyncDispose]()
  }
}
