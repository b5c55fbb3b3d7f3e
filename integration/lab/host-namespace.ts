import { mkdir, readFile } from "node:fs/promises"
import { join } from "node:path"
import {
  ContainerNamespace,
  Namespace,
  namespacePids,
  namespacePrefix,
  removeNamespace,
  uniqueNamespaceName,
} from "./namespace.ts"
import { mustRun, startDaemon } from "./program.ts"
import { setIpv4Defaults } from "./sysctl.ts"
import { waitFor } from "./wait-for.ts"

/** Where plugins keep state: each host namespace sees an empty directory of its own there. */
export const privateDirectories = ["/var/lib/cni", "/run/cni"] as const

/** The keeper of this process, started by its first host; the only state of this module. */
let keeper: Promise<unknown> | undefined

/**
 * A host to test on: a network namespace with `lo` up and private, empty `privateDirectories`, so that neither the
 * network nor the files of the machine are touched. Owns its container namespaces. Needs root.
 * @example
 * await using host = await HostNamespace.create()
 * const pod = await host.addContainer()
 * await host.exec("ip", ["link", "add", "br0", "type", "bridge"])
 */
export class HostNamespace extends Namespace implements AsyncDisposable {
  /** A process that does nothing but hold the mount namespace. */
  readonly #holder: number
  readonly #containers: ContainerNamespace[] = []

  private constructor(name: string, holder: number) {
    super(name)
    this.#holder = holder
  }

  /** Makes a host. It is removed by its disposal, and at the latest shortly after the end of this process. */
  static async create(label = "host"): Promise<HostNamespace> {
    await startKeeper()
    const name = uniqueNamespaceName(label)
    await mustRun(["ip", "netns", "add", name])
    try {
      const host = new HostNamespace(name, await startHolder(name))
      for (const directory of privateDirectories) {
        await mkdir(directory, { recursive: true }) // an empty directory to mount on is all the machine gets
        await host.exec("mount", ["-t", "tmpfs", "-o", "mode=755", "cni-test", directory])
      }
      await setIpv4Defaults(host)
      await host.exec("ip", ["link", "set", "lo", "up"])
      return host
    } catch (error) {
      await removeNamespace(name)
      throw error
    }
  }

  /** Makes a namespace that is removed with the host: a container, or a peer somewhere in the network. */
  async addContainer(label = "pod"): Promise<ContainerNamespace> {
    const container = new ContainerNamespace(uniqueNamespaceName(label))
    await mustRun(["ip", "netns", "add", container.name])
    this.#containers.push(container)
    await setIpv4Defaults(container)
    return container
  }

  /** Removes a container namespace, as a runtime does when the container no longer exists. */
  async removeContainer(container: ContainerNamespace): Promise<void> {
    await removeNamespace(container.name)
    const at = this.#containers.indexOf(container)
    if (at >= 0) this.#containers.splice(at, 1)
  }

  /** The path under which this process sees a file of the host, its `privateDirectories` included. */
  file(path: string): string {
    return join(`/proc/${this.#holder}/root`, path)
  }

  commandLine(command: readonly string[]): string[] {
    // An absolute path: the environment of the program may have no PATH.
    return [
      Bun.which("nsenter") ?? "nsenter",
      `--net=${this.path}`,
      `--mount=/proc/${this.#holder}/ns/mnt`,
      "--",
      ...command,
    ]
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const { name } of this.#containers.splice(0)) await removeNamespace(name)
    await removeNamespace(this.name)
  }
}

/** Starts the holder and returns its process id. It is a daemon because the host may serve several tests. */
async function startHolder(name: string): Promise<number> {
  await startDaemon(["ip", "netns", "exec", name, "sleep", "infinity"])
  return waitFor(async () => {
    const [pid] = await namespacePids(name)
    // `ip` has made the mount namespace when it becomes `sleep`.
    return pid !== undefined && (await readFile(`/proc/${pid}/comm`, "utf8")) === "sleep\n" ? pid : undefined
  }, `the mount namespace of ${name}`)
}

/** Starts the one keeper of this process. */
function startKeeper(): Promise<unknown> {
  const script = join(import.meta.dir, "keeper.sh")
  keeper ??= startDaemon(["sh", script, String(process.pid), namespacePrefix(process.pid)])
  return keeper
}

/** The executables behind all programs of iptables; Debian's `iptables` is a chain of links that ends in the first. */
const newer = "/usr/sbin/xtables-nft-multi"
const legacy = "/usr/sbin/xtables-legacy-multi"

/** Where Debian's links lead through: an administrator's choice. */
const alternatives = "/etc/alternatives"

const chooseLegacy = `
mount -t tmpfs -o mode=755 cni-test /mnt
cp -a ${alternatives}/. /mnt
for what in "" -save -restore; do
  ln -sf /usr/sbin/iptables-legacy$what /mnt/iptables$what
  ln -sf /usr/sbin/ip6tables-legacy$what /mnt/ip6tables$what
done
mount --move /mnt ${alternatives}`

/** What a host may have as `iptables`: rules in nf_tables, rules in the kernel's older tables, or no program at all. */
export type IptablesKind = "nf_tables" | "legacy" | "none"

/** Chooses for a host what `iptables` is; the machine keeps its own. Made by mounts, which go with the host. */
export async function chooseIptables(host: HostNamespace, kind: IptablesKind): Promise<void> {
  for (const file of [newer, legacy, alternatives]) await host.tryExec("umount", ["--all-targets", file])
  if (kind === "legacy") {
    await mountOver(host, newer, legacy)
    // As `update-alternatives --set iptables /usr/sbin/iptables-legacy` has it.
    await host.exec("sh", ["-ec", chooseLegacy])
  }
  if (kind === "none") for (const file of [newer, legacy]) await mountOver(host, file, "/dev/null")
}

/** Puts another file in the place of a host's file. */
export async function mountOver(host: HostNamespace, file: string, other: string): Promise<void> {
  await host.exec("mount", ["--bind", other, file])
}
