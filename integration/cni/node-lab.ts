import { cp } from "node:fs/promises"
import { dirname, join } from "node:path"
import {
  builtPlugins,
  type ContainerNamespace,
  HostNamespace,
  isOfMachine,
  type Output,
  programEnv,
  TemporaryDirectory,
  waitFor,
} from "../lab/mod.ts"

const tool = join(builtPlugins, "../cni")

/** A usual network of pods: a bridge, masquerading and published ports. */
export const podsNetwork = {
  cniVersion: "1.1.0",
  name: "pods",
  plugins: [
    {
      type: "bridge",
      bridge: "cni0",
      isDefaultGateway: true,
      ipMasq: true,
      hairpinMode: true,
      ipam: { type: "host-local", ranges: [[{ subnet: "10.85.0.0/24" }]] },
    },
    { type: "portmap", capabilities: { portMappings: true } },
  ],
}

/** A finding of `cni doctor --json`. */
export interface Finding {
  readonly rule: string
  readonly severity: string
  readonly network?: string
  readonly what: string
  readonly why: string
  readonly remedy: string
  readonly pasteable: boolean
  readonly note?: string
  readonly fixable: boolean
  readonly affected: readonly { readonly name: string; readonly detail?: string; readonly containerId?: string }[]
}

/**
 * Returns the output of a command on a terminal, without its progress line, which the command prints after a second and
 * clears later.
 */
export function withoutProgress(shown: string): string {
  const parts = shown.split("\r\x1b[K")
  return parts.filter((part) => !/^cni .*: running for \d+ s, Ctrl-C stops it$/.test(part)).join("")
}

/** A node with a configuration directory and pods, for tests that use `cni` like the node's operator. */
export class NodeLab implements AsyncDisposable {
  readonly host: HostNamespace
  readonly directory: TemporaryDirectory
  /** The directory from which the runtime executes plugins. */
  binDir = builtPlugins
  #port = 8000

  private constructor(host: HostNamespace, directory: TemporaryDirectory) {
    this.host = host
    this.directory = directory
  }

  static async create(network: object = podsNetwork): Promise<NodeLab> {
    const lab = new NodeLab(await HostNamespace.create(), await TemporaryDirectory.create())
    await lab.writeNetwork("10-pods.conflist", network)
    return lab
  }

  get confDir(): string {
    return this.directory.join("net.d")
  }

  async writeNetwork(file: string, network: object | string): Promise<void> {
    await Bun.write(join(this.confDir, file), typeof network === "string" ? network : JSON.stringify(network, null, 2))
  }

  /** Runs `cni` and returns its output, also after a failure. The command `under`, if not empty, runs `cni`. */
  cni(
    args: readonly string[],
    env: Readonly<Record<string, string>> = {},
    under: readonly string[] = [],
  ): Promise<Output> {
    const [file = "", ...words] = [...under, tool, ...args]
    return this.host.tryExec(file, words, { env: { ...this.env(), ...env } })
  }

  /** Returns the command line of `cni` on the node, for a process that a test starts itself. */
  commandLine(args: readonly string[], under: readonly string[] = []): string[] {
    return this.host.commandLine([...under, tool, ...args])
  }

  /** Returns the environment of `cni` on the node. */
  env(): Record<string, string> {
    return { ...programEnv, NETCONFPATH: this.confDir, CNI_PATH: this.binDir }
  }

  /** Returns the findings of `cni doctor`, except those that concern the machine. */
  async doctor(...args: string[]): Promise<{ findings: Finding[]; stderr: string; exitCode: number }> {
    const { stdout, stderr, exitCode } = await this.cni(["doctor", "--json", ...args])
    const { findings: all = [] } = (stdout === "" ? {} : JSON.parse(stdout)) as { findings?: Finding[] }
    return { findings: all.filter(({ rule }) => !isOfMachine(rule)), stderr, exitCode }
  }

  /** Runs a command like an operator who pastes it into a shell. */
  paste(command: string): Promise<Output> {
    return this.host.tryExec("sh", ["-c", command], {
      env: { ...this.env(), PATH: `${dirname(tool)}:${programEnv.PATH}` },
    })
  }

  /** Copies the plugins to a new directory, applies `change`, and makes the runtime use that directory. */
  async useOwnPlugins(change: (directory: string) => Promise<unknown>): Promise<void> {
    const directory = this.directory.join("bin")
    await cp(builtPlugins, directory, { recursive: true })
    await change(directory)
    this.binDir = directory
  }

  /** Returns the output of `cni` on a terminal of 120 columns, without colors. */
  async onTerminal(args: readonly string[]): Promise<Output> {
    const env = { ...this.env(), NO_COLOR: "1" }
    const output = await this.host.tryExec(
      "script",
      ["-qec", `stty cols 120; ${tool} ${args.join(" ")}`, "/dev/null"],
      { env },
    )
    return { ...output, stdout: withoutProgress(output.stdout) }
  }

  /** The host port of the last pod. */
  get lastPort(): number {
    return this.#port
  }

  /**
   * Attaches a new pod with one published port for each of `protocols`. The pod has the name that kubelet would use.
   * The container's ID is by default the name of the pod's namespace. Throws the output of `cni add` if that fails,
   * with the name of the namespace as cause.
   */
  async addPod(
    name = "web",
    network = "pods",
    containerId?: string,
    protocols: readonly string[] = ["tcp"],
  ): Promise<ContainerNamespace> {
    const pod = await this.host.addContainer()
    const hostPort = ++this.#port
    const portMappings = protocols.map((protocol) => ({ hostPort, containerPort: 80, protocol }))
    const CAP_ARGS = JSON.stringify({ portMappings })
    const CNI_ARGS = `IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=${name}`
    const added = await this.cni(["add", network, pod.path, "--container-id", containerId ?? pod.name], {
      CAP_ARGS,
      CNI_ARGS,
    })
    if (added.exitCode !== 0) throw new Error(added.stderr, { cause: pod.name })
    return pod
  }

  /** Deletes a pod's namespace without DEL, as after a crash of the runtime. */
  async losePod(pod: ContainerNamespace): Promise<void> {
    await this.host.removeContainer(pod)
    const links = async () => (await this.host.exec("ip", ["-details", "link"])).stdout
    await waitFor(async () => !(await links()).includes(pod.name), "the kernel to delete the pod's link")
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.host[Symbol.asyncDispose]()
    await this.directory[Symbol.asyncDispose]()
  }
}
