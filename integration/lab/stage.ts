import { Attachment, newest } from "./attachment.ts"
import { HostNamespace } from "./host-namespace.ts"
import type { ContainerNamespace } from "./namespace.ts"
import { gatewayBridge } from "./networks.ts"
import type { Network, Role } from "./plugin-row.ts"
import { interfacePlugin, pluginRow } from "./plugins.ts"
import type { PluginCall } from "./run-plugin.ts"
import type { Snapshot } from "./snapshot/diff.ts"
import { takeSnapshot } from "./snapshot/snapshot.ts"

/** How an attachment differs from container "eth0" on network "lab". */
export interface AttachOptions {
  readonly pod?: ContainerNamespace
  readonly ifName?: string
  /** The name of the namespace, unless it is said. */
  readonly containerId?: string
  readonly network?: Network
  /** From 0.3.0 on for chained plugins. */
  readonly cniVersion?: string
  /** More keys of the configuration; they win. */
  readonly keys?: Record<string, unknown>
  /** How the plugin is run, where that differs. */
  readonly call?: Partial<PluginCall>
}

/** An attachment that can be added. */
export interface Attached {
  readonly pod: ContainerNamespace
  readonly ifName: string
  /** Of the plugin that the stage is for. */
  readonly attachment: Attachment
  /** Of bridge, which has made the interface that a chained plugin works on; it has been added. */
  readonly maker: Attachment | undefined
}

/** A host on which one plugin shows what every plugin has to do. */
export class Stage implements AsyncDisposable {
  readonly host: HostNamespace
  readonly plugin: string
  #port = 8080

  private constructor(host: HostNamespace, plugin: string) {
    this.host = host
    this.plugin = plugin
  }

  static async create(plugin: string): Promise<Stage> {
    return new Stage(await hostFor(plugin), plugin)
  }

  /** A stage for a plugin on a host that has what it needs already, by `hostFor`; it goes with the host. */
  static on(host: HostNamespace, plugin: string): Stage {
    return new Stage(host, plugin)
  }

  get role(): Role {
    return pluginRow(this.plugin).role
  }

  /** The interface of the container that is there after ADD; undefined for plugins that have to do with none. */
  interfaceOf({ ifName }: Attached): string | undefined {
    return { interface: ifName, delegating: ifName, device: ifName, loopback: "lo", ipam: undefined, chained: ifName }[
      this.role
    ]
  }

  /** An attachment; for a chained plugin bridge has been called, and its result is the configuration's `prevResult`. */
  async attach(options: AttachOptions = {}): Promise<Attached> {
    const { network = "lab", cniVersion = newest, keys = {} } = options
    const ifName = options.ifName ?? (this.role === "loopback" ? "lo" : "eth0")
    const pod = options.pod ?? (await this.host.addContainer())
    const place = { network, port: this.#port++ }
    const common = { cniVersion, name: network }
    const call = { ifName, ...(options.containerId === undefined ? {} : { containerId: options.containerId }) }
    const maker =
      this.role === "chained"
        ? new Attachment(this.host, pod, { ...common, type: "bridge", ...gatewayBridge(network) }, call)
        : undefined
    const prevResult = maker && { prevResult: await maker.add() }
    const config = { ...common, type: this.plugin, ...pluginRow(this.plugin).keys(place), ...prevResult, ...keys }
    return { pod, ifName, attachment: new Attachment(this.host, pod, config, { ...call, ...options.call }), maker }
  }

  /** Adds and deletes one attachment, after which the host has what stays on purpose: a bridge, a forwarding host. */
  async settle(network: Network = "lab"): Promise<void> {
    const { attachment, maker } = await this.attach({ network })
    await attachment.add()
    await attachment.del()
    await maker?.del()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.host[Symbol.asyncDispose]()
  }
}

/** A host that has what these plugins need. */
export async function hostFor(...plugins: readonly string[]): Promise<HostNamespace> {
  const host = await HostNamespace.create()
  for (const setUp of new Set(plugins.map((plugin) => pluginRow(plugin).setUp))) await setUp?.(host)
  return host
}

/** A host on which an interface plugin has been before, one container, and the snapshot to come back to. */
export async function usedHost(
  plugin: string,
): Promise<{ host: HostNamespace; pod: ContainerNamespace; before: Snapshot }> {
  const host = await hostFor(plugin)
  const { network, everything } = interfacePlugin(plugin)
  const first = new Attachment(host, await host.addContainer(), network(everything))
  await first.add()
  await first.del()
  return { host, pod: await host.addContainer(), before: await takeSnapshot(host) }
}
