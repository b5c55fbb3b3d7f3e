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

/** The directories in which plugins keep state. Each host has its own, which are initially empty. */
export const privateDirectories = ["/var/lib/cni", "/run/cni"] as const

/** The process that cleans up after this process, started with its first host; the only state of this module. */
let keeper: Promise<unknown> | undefined

/**
 * A host for tests: a network namespace with `lo` up and with private, empty `privateDirectories`. Tests therefore do
 * not change the machine's network and files. The host removes its container namespaces. Needs root.
 *
 * @example
 * await using host = await HostNamespace.create()
 * const pod = await host.addContainer()
 * await host.exec("ip", ["link", "add", "br0", "type", "bridge"])
 */
export class HostNamespace extends Namespace implements AsyncDisposable {
  /** The ID of an idle process that keeps the mount namespace alive. */
  readonly #holder: number
  readonly #containers: ContainerNamespace[] = []

  private constructor(name: string, holder: number) {
    super(name)
    this.#holder = holder
  }

  /** Creates a host, which disposal removes. If this process ends without disposal, the keeper removes the host. */
  static async create(label = "host"): Promise<HostNamespace> {
    await startKeeper()
    const name = uniqueNamespaceName(label)
    await mustRun(["ip", "netns", "add", name])
    try {
      const host = new HostNamespace(name, await startHolder(name))
      for (const directory of privateDirectories) {
        await mkdir(directory, { recursive: true }) // creates only an empty directory on the machine, as mount point
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

  /** Creates a namespace for a container or for another machine on the network. The host's disposal removes it. */
  async addContainer(label = "pod"): Promise<ContainerNamespace> {
    const container = new ContainerNamespace(uniqueNamespaceName(label))
    await mustRun(["ip", "netns", "add", container.name])
    this.#containers.push(container)
    await setIpv4Defaults(container)
    return container
  }

  /** Removes a container namespace, as a runtime does after the end of the container. */
  async removeContainer(container: ContainerNamespace): Promise<void> {
    await removeNamespace(container.name)
    const at = this.#containers.indexOf(container)
    if (at >= 0) this.#containers.splice(at, 1)
  }

  /** Returns the path under which this process reaches a file of the host, including files in `privateDirectories`. */
  file(path: string): string {
    return join(`/proc/${this.#holder}/root`, path)
  }

  commandLine(command: readonly string[]): string[] {
    // An absolute path, because the program's environment may have no PATH.
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

/**
 * Starts the process that keeps the mount namespace, and returns its ID. It is a daemon, because several tests may use
 * the host.
 */
async function startHolder(name: string): Promise<number> {
  await startDaemon(["ip", "netns", "exec", name, "sleep", "infinity"])
  return waitFor(async () => {
    const [pid] = await namespacePids(name)
    // `ip` creates the mount namespace before it executes `sleep`.
    return pid !== undefined && (await readFile(`/proc/${pid}/comm`, "utf8")) === "sleep\n" ? pid : undefined
  }, `the mount namespace of ${name}`)
}

/** Starts keeper.sh, which cleans up after this process, unless keeper.sh already runs. */
function startKeeper(): Promise<unknown> {
  const script = join(import.meta.dir, "keeper.sh")
  keeper ??= startDaemon(["sh", script, String(process.pid), namespacePrefix(process.pid)])
  return keeper
}

/** The executables behind all iptables programs. Debian's `iptables` is a chain of symbolic links to `newer`. */
const newer = "/usr/sbin/xtables-nft-multi"
const legacy = "/usr/sbin/xtables-legacy-multi"

/** The directory of Debian's symbolic links that record the administrator's choice. */
const alternatives = "/etc/alternatives"

const chooseLegacy = `
mount -t tmpfs -o mode=755 cni-test /mnt
cp -a ${alternatives}/. /mnt
for what in "" -save -restore; do
  ln -sf /usr/sbin/iptables-legacy$what /mnt/iptables$what
  ln -sf /usr/sbin/ip6tables-legacy$what /mnt/ip6tables$what
done
mount --move /mnt ${alternatives}`

/** The kind of a host's `iptables`: it stores rules in nf_tables or in the kernel's older tables, or is missing. */
export type IptablesKind = "nf_tables" | "legacy" | "none"

/** Chooses the kind of a host's `iptables`, by mounts in the host's own mount namespace. The machine is not changed. */
export async function chooseIptables(host: HostNamespace, kind: IptablesKind): Promise<void> {
  for (const file of [newer, legacy, alternatives]) await host.tryExec("umount", ["--all-targets", file])
  if (kind === "legacy") {
    await mountOver(host, newer, legacy)
    // Does the same as `update-alternatives --set iptables /usr/sbin/iptables-legacy`.
    await host.exec("sh", ["-ec", chooseLegacy])
  }
  if (kind === "none") for (const file of [newer, legacy]) await mountOver(host, file, "/dev/null")
}

/** Mounts another file over a file of the host, like `mount --bind`. */
export async function mountOver(host: HostNamespace, file: string, other: string): Promise<void> {
  await host.exec("mount", ["--bind", other, file])
}
