import {
  Attachment,
  type ContainerNamespace,
  HostNamespace,
  type Namespace,
  newest,
  type PluginCall,
  type PluginResult,
  readSysctl,
} from "../lab/mod.ts"

/** The fields of a link in `ip -d -j link show` that the plugin can change. */
export interface TunedLink {
  address: string
  mtu: number
  txqlen: number
  promiscuity: number
  /** The flags, such as "PROMISC" and "ALLMULTI". */
  flags: string[]
}

export async function linkOf(where: Namespace, name: string): Promise<TunedLink> {
  const [link] = await where.json<TunedLink[]>("ip", ["-d", "-j", "link", "show", "dev", name])
  if (!link) throw new Error(`no link ${name} in ${where.name}`)
  const { address, mtu, txqlen, promiscuity, flags } = link
  return { address, mtu, txqlen, promiscuity, flags }
}

const backups = "/run/cni/tuning"

/** A container that bridge has attached, without addresses, and the attachment of tuning. */
export class TuningChain implements AsyncDisposable {
  readonly host: HostNamespace
  readonly pod: ContainerNamespace
  /** The result of bridge: the bridge, the host's end, and the container's interface. */
  readonly bridged: PluginResult
  readonly tuning: Attachment

  private constructor(host: HostNamespace, pod: ContainerNamespace, bridged: PluginResult, tuning: Attachment) {
    this.host = host
    this.pod = pod
    this.bridged = bridged
    this.tuning = tuning
  }

  /**
   * Creates a host with a container. `keys` are keys of tuning. A `cniVersion` from 0.3.0 on also applies to bridge.
   */
  static async create(keys: Record<string, unknown> = {}, call: Partial<PluginCall> = {}): Promise<TuningChain> {
    const host = await HostNamespace.create()
    try {
      const pod = await host.addContainer()
      const { cniVersion } = keys
      const hasChains = typeof cniVersion === "string" && cniVersion >= "0.3.0"
      const chain = { cniVersion: hasChains ? cniVersion : newest, name: "lab" }
      const bridge = new Attachment(host, pod, { ...chain, type: "bridge", bridge: "br-lab" }, call)
      const prevResult = await bridge.add()
      const tuning = new Attachment(host, pod, { ...chain, type: "tuning", prevResult, ...keys }, call)
      return new TuningChain(host, pod, prevResult, tuning)
    } catch (error) {
      await host[Symbol.asyncDispose]()
      throw error
    }
  }

  get port(): string {
    return this.bridged.interfaces[1]?.name ?? ""
  }

  link(name = "eth0"): Promise<TunedLink> {
    return linkOf(this.pod, name)
  }

  sysctl(path: string): Promise<string> {
    return readSysctl(this.pod, path)
  }

  /** Returns the names in the directory of the backups, including temporary files. */
  async backups(directory = backups): Promise<string[]> {
    const { stdout } = await this.host.tryExec("ls", ["-A", directory])
    return stdout.split("\n").filter(Boolean)
  }

  async backup(): Promise<Record<string, unknown>> {
    const { stdout } = await this.host.exec("cat", [`${backups}/lab:${this.pod.name}:eth0.json`])
    return JSON.parse(stdout) as Record<string, unknown>
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.host[Symbol.asyncDispose]()
  }
}

/** Writes the list of allowed sysctls on a host, whose /etc contains nothing else. The machine's list is unchanged. */
export async function writeAllowList(host: HostNamespace, lines: readonly string[]): Promise<void> {
  if ((await host.tryExec("mountpoint", ["-q", "/etc"])).exitCode !== 0) {
    await host.exec("mount", ["-t", "tmpfs", "cni-test", "/etc"])
  }
  await host.exec("mkdir", ["-p", "/etc/cni/tuning"])
  await host.exec("tee", ["/etc/cni/tuning/allowlist.conf"], { input: lines.map((line) => `${line}\n`).join("") })
}

/** Keys that change every setting that tuning can change. */
export const everything = {
  sysctl: {
    "net.ipv4.conf.IFNAME.arp_filter": "1",
    "net/core/somaxconn": "500",
    "net.ipv4.tcp_rmem": "4096 8192 16384",
  },
  mac: "0a:00:00:00:00:07",
  mtu: 1400,
  promisc: true,
  allmulti: true,
  txQLen: 77,
}
