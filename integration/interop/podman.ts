import { builtPlugins, mustRun, type Output, programEnv, runProgram } from "../lab/mod.ts"
import { writeRoot } from "./busybox.ts"
import { podmanNetwork } from "./networks.ts"
import { confDir, RuntimeHost } from "./runtime-host.ts"

const confFile = "/run/containers.conf"

/**
 * Returns containers.conf. `network_backend` chooses CNI, and `cni_plugin_dirs` chooses the plugins under test. The
 * rest adapts containers to this host: their limits must not exceed those of the test, and the cgroup tree may lack
 * controllers.
 */
const containersConf = (plugins: string) => `
[network]
network_backend = "cni"
cni_plugin_dirs = ["${plugins}"]
network_config_dir = "${confDir}"
default_network = "${podmanNetwork.name}"
[engine]
runtime = "crun"
cgroup_manager = "cgroupfs"
events_logger = "none"
[containers]
cgroups = "disabled"
log_driver = "k8s-file"
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
`

/** podman on its own host, with one network that uses the plugins under test. */
export class Podman implements AsyncDisposable {
  readonly host: RuntimeHost
  readonly #root: string

  private constructor(host: RuntimeHost, root: string) {
    this.host = host
    this.#root = root
  }

  /** Creates podman with the plugins under test, or with those in a directory of the host that `prepare` fills. */
  static async create(plugins = builtPlugins, prepare = async (_host: RuntimeHost) => {}): Promise<Podman> {
    const host = await RuntimeHost.create()
    try {
      await prepare(host)
      await host.write(confFile, containersConf(plugins))
      await host.write(`${confDir}/87-podman.conflist`, podmanNetwork)
      return new Podman(host, await writeRoot(host))
    } catch (error) {
      await host[Symbol.asyncDispose]()
      throw error
    }
  }

  /** Runs `podman` with `args`, and returns its stdout without the line end. Throws `ProgramError` if podman fails. */
  async run(...args: string[]): Promise<string> {
    return (await mustRun(this.#commandLine(args), { env: podmanEnv })).stdout.trim()
  }

  /** Runs `podman` with these arguments, and returns its output, also after a failure. */
  try(...args: string[]): Promise<Output> {
    return runProgram(this.#commandLine(args), { env: podmanEnv })
  }

  /** Starts a container that runs `command`. `flags` are options of `podman run`. */
  async start(name: string, command: readonly string[], ...flags: string[]): Promise<void> {
    await this.run(
      "run",
      "--detach",
      "--name",
      name,
      "--hostname",
      name,
      ...flags,
      "--rootfs",
      `${this.#root}:O`,
      ...command,
    )
  }

  address(name: string): Promise<string> {
    return this.run("inspect", "--format", "{{.NetworkSettings.Networks.podman.IPAddress}}", name)
  }

  async remove(...names: string[]): Promise<void> {
    await this.run("rm", "--force", "--time", "0", ...names)
  }

  #commandLine(args: readonly string[]): string[] {
    return this.host.commandLine(["podman", ...podmanPlaces, ...args])
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.host[Symbol.asyncDispose]()
  }
}

/** The podman options for its directories, all of which are deleted with the host. */
export const podmanPlaces = [
  ...["--root", "/run/storage", "--runroot", "/run/containers", "--tmpdir", "/run/libpod"],
  ...["--storage-driver", "vfs"],
]

export const podmanEnv = { ...programEnv, CONTAINERS_CONF: confFile, HOME: "/run" }
