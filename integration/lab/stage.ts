import { Attachment, newest } from "./attachment.ts"
import { HostNamespace } from "./host-namespace.ts"
import type { ContainerNamespace } from "./namespace.ts"
import { gatewayBridge } from "./networks.ts"
import type { Network, Role } from "./plugin-row.ts"
import { interfacePlugin, pluginRow } from "./plugins.ts"
import type { PluginCall } from "./run-plugin.ts"
import type { Snapshot } from "./snapshot/diff.ts"
import { takeSnapshot } from "./snapshot/snapshot.ts"

/** The properties of an attachment that differ from container "eth0" on network "lab". */
export interface AttachOptions {
  readonly pod?: ContainerNamespace
  readonly ifName?: string
  /** The name of the namespace by default. */
  readonly containerId?: string
  readonly network?: Network
  /** From 0.3.0 on for chained plugins. */
  readonly cniVersion?: string
  /** More keys of the configuration; they win. */
  readonly keys?: Record<string, unknown>
  /** The way to run the plugin, if it differs. */
  readonly call?: Partial<PluginCall>
}

/** An attachment that can be added. */
export interface Attached {
  readonly pod: ContainerNamespace
  readonly ifName: string
  /** The attachment of the stage's plugin. */
  readonly attachment: Attachment
  /** The attachment of bridge, which created a chained plugin's interface; it has been added. */
  readonly maker: Attachment | undefined
}

/** A host for the cases that every plugin shares. */
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

  /** A stage for a plugin on a host prepared by `hostFor`; it ends with the host. */
  static on(host: HostNamespace, plugin: string): Stage {
    return new Stage(host, plugin)
  }

  get role(): Role {
    return pluginRow(this.plugin).role
  }

  /** The container's interface after ADD; undefined for plugins without one. */
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

  /** Adds and deletes one attachment, so that the host has the objects that stay on purpose: a bridge, forwarding. */
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

/** A host with everything that these plugins need. */
export async function hostFor(...plugins: readonly string[]): Promise<HostNamespace> {
  const host = await HostNamespace.create()
  for (const setUp of new Set(plugins.map((plugin) => pluginRow(plugin).setUp))) await setUp?.(host)
  return host
}

/** A host on which an interface plugin was used before, one container, and the snapshot to return to. */
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
