import { pluginNames } from "../../cmd/plugins.ts"
import { Attachment, newest } from "./attachment.ts"
import type { ContainerNamespace } from "./container-namespace.ts"
import { HostNamespace } from "./host-namespace.ts"
import type { PluginCall } from "./run-plugin.ts"

/** What a plugin does for an attachment: makes an interface, brings up `lo`, gives addresses, or comes after others. */
export type Role = "interface" | "loopback" | "ipam" | "chained"

/** A network of a stage: "lab" has 10.22.0.0/24, "other" 10.23.0.0/24. */
export type Network = "lab" | "other"

/** Where one attachment is. */
interface Place {
  readonly network: Network
  /** Of the host; no two attachments of a stage have the same. */
  readonly port: number
}

interface Plugin {
  readonly role: Role
  /** Its configuration, with as much to do as there is, but for IPv6. */
  keys(place: Place): Record<string, unknown>
}

const subnets = { lab: "10.22.0.0/24", other: "10.23.0.0/24" } as const
const pool = (network: Network) => ({ type: "host-local", ranges: [[{ subnet: subnets[network] }]] })
const gatewayBridge = (network: Network) => ({ bridge: `br-${network}`, isDefaultGateway: true, ipam: pool(network) })
const fixed = { address: "10.44.0.7/24", gateway: "10.44.0.1" }

const plugins: Readonly<Record<string, Plugin>> = {
  bridge: { role: "interface", keys: ({ network }) => ({ ...gatewayBridge(network), ipMasq: true }) },
  ptp: {
    role: "interface",
    keys: ({ network }) => ({ ipMasq: true, ipam: { ...pool(network), routes: [{ dst: "0.0.0.0/0" }] } }),
  },
  loopback: { role: "loopback", keys: () => ({}) },
  "host-local": { role: "ipam", keys: ({ network }) => ({ ipam: pool(network) }) },
  static: { role: "ipam", keys: () => ({ ipam: { type: "static", addresses: [fixed] } }) },
  portmap: {
    role: "chained",
    keys: ({ port }) => ({
      runtimeConfig: { portMappings: [{ hostPort: port, containerPort: 80, protocol: "tcp" }] },
    }),
  },
  tuning: {
    role: "chained",
    keys: () => ({ sysctl: { "net.ipv4.conf.IFNAME.arp_filter": "1" }, txQLen: 77 }),
  },
}

/** The names of all plugins of the executable, or of those in some roles. */
export function pluginsAs(...roles: readonly Role[]): string[] {
  return pluginNames.filter((name) => roles.length === 0 || roles.includes(pluginOf(name).role))
}

function pluginOf(name: string): Plugin {
  const plugin = plugins[name]
  if (!plugin) throw new Error(`Say in every-plugin.ts how "${name}" is configured`)
  return plugin
}

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
    return new Stage(await HostNamespace.create(), plugin)
  }

  get role(): Role {
    return pluginOf(this.plugin).role
  }

  /** The interface of the container that is there after ADD; undefined for plugins that have to do with none. */
  interfaceOf({ ifName }: Attached): string | undefined {
    return { interface: ifName, loopback: "lo", ipam: undefined, chained: ifName }[this.role]
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
    const config = { ...common, type: this.plugin, ...pluginOf(this.plugin).keys(place), ...prevResult, ...keys }
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
