import { Attachment, newest } from "./attachment.ts"
import { HostNamespace } from "./host-namespace.ts"
import type { ContainerNamespace } from "./namespace.ts"
import { gatewayBridge } from "./networks.ts"
import type { Network, Role } from "./plugin-row.ts"
import { interfacePlugin, pluginRow } from "./plugins.ts"
import type { PluginCall } from "./run-plugin.ts"
import type { Snapshot } from "./snapshot/diff.ts"
import { takeSnapshot } from "./snapshot/snapshot.ts"

/** Properties of an attachment. The defaults are interface "eth0" and network "lab". */
export interface AttachOptions {
  readonly pod?: ContainerNamespace
  readonly ifName?: string
  /** The container's ID, by default the name of its namespace. */
  readonly containerId?: string
  readonly network?: Network
  /** The version of the configuration. Chained plugins need 0.3.0 or later. */
  readonly cniVersion?: string
  /** Further configuration keys, which replace those of the plugin. */
  readonly keys?: Record<string, unknown>
  /** Fields of the plugin call that differ from the defaults. */
  readonly call?: Partial<PluginCall>
}

export interface Attached {
  readonly pod: ContainerNamespace
  readonly ifName: string
  readonly attachment: Attachment
  /** The attachment of bridge, already added, that created the interface for a chained plugin; otherwise undefined. */
  readonly maker: Attachment | undefined
}

/** A host and a plugin for the cases that run for every plugin. */
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

  /** Returns a stage for a plugin on a host that `hostFor` prepared. The stage's disposal removes the host. */
  static on(host: HostNamespace, plugin: string): Stage {
    return new Stage(host, plugin)
  }

  get role(): Role {
    return pluginRow(this.plugin).role
  }

  /** Returns the name of the container's interface after ADD, or undefined for plugins that have none. */
  interfaceOf({ ifName }: Attached): string | undefined {
    return { interface: ifName, delegating: ifName, device: ifName, loopback: "lo", ipam: undefined, chained: ifName }[
      this.role
    ]
  }

  /** Prepares an attachment. For a chained plugin, first runs ADD of bridge, and passes the result as `prevResult`. */
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

  /**
   * Adds and deletes one attachment, so that the host has the objects that DEL leaves: a bridge, enabled forwarding.
   */
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

/** Creates a host with everything that these plugins need. */
export async function hostFor(...plugins: readonly string[]): Promise<HostNamespace> {
  const host = await HostNamespace.create()
  for (const setUp of new Set(plugins.map((plugin) => pluginRow(plugin).setUp))) await setUp?.(host)
  return host
}

/** Returns a host on which a plugin has added and deleted an attachment, with a new container and a snapshot. */
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
