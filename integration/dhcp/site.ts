import { join } from "node:path"
import {
  Attachment,
  builtPlugins,
  type ContainerNamespace,
  connect,
  HostNamespace,
  newest,
  TemporaryDirectory,
} from "../lab/mod.ts"
import { Running } from "./running.ts"

/** How containers reach the server's network: through a bridge of the host, or with macvlan on the host's link. */
export type LinkKind = "bridge" | "macvlan"

/** A host with the dhcp daemon, and a machine for a DHCP server in the same network: `eth0`, 10.1.2.1. */
export class Site implements AsyncDisposable {
  readonly host: HostNamespace
  /** The namespace of the server's machine. */
  readonly server: ContainerNamespace
  readonly directory: TemporaryDirectory
  daemon: Running
  readonly #linkKind: LinkKind

  private constructor(parts: Pick<Site, "host" | "server" | "directory" | "daemon">, linkKind: LinkKind) {
    this.host = parts.host
    this.server = parts.server
    this.directory = parts.directory
    this.daemon = parts.daemon
    this.#linkKind = linkKind
  }

  static async create(linkKind: LinkKind, flags: readonly string[] = ["-timeout", "1s"]): Promise<Site> {
    const host = await HostNamespace.create()
    const directory = await TemporaryDirectory.create()
    try {
      const server = await host.addContainer("server")
      await server.exec("ip", ["link", "set", "lo", "up"])
      await connect({ namespace: host, link: "up0" }, { namespace: server, link: "eth0", addresses: ["10.1.2.1/24"] })
      await server.exec("ip", ["address", "add", "2001:db8:2::1/64", "dev", "eth0", "nodad"])
      if (linkKind === "bridge") {
        await host.exec("ip", ["link", "add", "br-lab", "type", "bridge"])
        await host.exec("ip", ["link", "set", "up0", "master", "br-lab"])
        await host.exec("ip", ["link", "set", "br-lab", "up"])
      }
      const daemon = await startDaemon(host, flags)
      return new Site({ host, server, directory, daemon }, linkKind)
    } catch (error) {
      await directory[Symbol.asyncDispose]()
      await host[Symbol.asyncDispose]()
      throw error
    }
  }

  /**
   * Creates a container and an attachment that gets its address by DHCP. `ipam` has further keys of the dhcp plugin.
   */
  async attach(ipam: object = {}): Promise<{ pod: ContainerNamespace; attachment: Attachment }> {
    const pod = await this.host.addContainer()
    const kind = this.#linkKind === "bridge" ? { type: "bridge", bridge: "br-lab" } : { type: "macvlan", master: "up0" }
    const config = { cniVersion: newest, name: "net", ...kind, ipam: { type: "dhcp", ...ipam } }
    return { pod, attachment: new Attachment(this.host, pod, config) }
  }

  /** Returns the directory for the files of the DHCP server with this name. */
  path(name: string): string {
    return this.directory.join(name)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.daemon[Symbol.asyncDispose]()
    await this.host[Symbol.asyncDispose]()
    await this.directory[Symbol.asyncDispose]()
  }
}

/** Starts `dhcp daemon` on a host, and waits until it serves requests. The command `under`, if not empty, runs it. */
export function startDaemon(
  host: HostNamespace,
  flags: readonly string[] = [],
  under: readonly string[] = [],
): Promise<Running> {
  return Running.start(host, [...under, join(builtPlugins, "dhcp"), "daemon", ...flags], /serving/)
}
