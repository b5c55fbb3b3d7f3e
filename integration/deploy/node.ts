import { mkdir, readdir } from "node:fs/promises"
import { dirname, join } from "node:path"
import { targets } from "../../scripts/engine.ts"
import { libraryFiles } from "../../scripts/release/agent.ts"
import { layTree, type PlacedFile } from "../../scripts/release/stage.ts"
import { pluginNames } from "../../suite/plugins.ts"
import {
  builtPlugins,
  HostNamespace,
  mustRun,
  type Output,
  programEnv,
  runProgram,
  TemporaryDirectory,
} from "../lab/mod.ts"
import { type ContainerSpec, entrypoint, type PodSpec, protectedPaths, readConflist } from "./manifests.ts"

/** The numbers of capabilities; <linux/capability.h> */
const capabilities = { DAC_OVERRIDE: 1, FOWNER: 3, NET_ADMIN: 12, NET_RAW: 13, SYS_ADMIN: 21, SETFCAP: 31 }

/**
 * Matches paths of the host that the test does not replace by its own directories, because they belong to the kernel or
 * are shared by runtimes and the kernel.
 */
const sharedPaths = /^(\/proc|\/run\/netns$)/

/** The directories in which a runtime on the node finds the files of containers. */
const statePaths = ["/run/cni", "/var/lib/cni"]

/**
 * A script that creates the root of a container at $root and executes its arguments there. Each line of $mounts is a
 * mount: source, target, mode, propagation.
 */
const enter = `
mount --bind "$root" "$root"
while read -r source target mode propagation; do
  [ -n "$source" ] || continue
  if [ -d "$source" ]; then mkdir -p "$root$target"; else mkdir -p "$root\${target%/*}"; : >"$root$target"; fi
  if [ "$propagation" = HostToContainer ]; then mount --rbind "$source" "$root$target"; else mount --bind "$source" "$root$target"; fi
  [ "$mode" = rw ] || mount -o remount,bind,ro "$root$target"
done <<END
$mounts
END
mount -t proc proc "$root/proc"
for path in $readonly; do [ ! -e "$root$path" ] || { mount --bind "$root$path" "$root$path" && mount -o remount,bind,ro "$root$path"; }; done
mount -t sysfs -o ro sysfs "$root/sys"
for path in $masked; do
  if [ -d "$root$path" ]; then mount -t tmpfs -o ro none "$root$path"
  elif [ -e "$root$path" ]; then mount --bind /dev/null "$root$path"; fi
done
mount -t tmpfs none "$root/dev"
for device in null zero urandom; do : >"$root/dev/$device"; mount --bind "/dev/$device" "$root/dev/$device"; done
mount -o remount,bind,ro "$root"
exec "$@"
`

/**
 * A node on which nothing was ever installed. It runs containers of the DaemonSet with the manifest's command line,
 * capabilities, mounts, read-only root, and kubelet's masks of /proc and /sys. The host's directories in the manifest
 * are below an empty directory.
 */
export class FreshNode implements AsyncDisposable {
  readonly host: HostNamespace
  readonly pod: PodSpec
  readonly #directory: TemporaryDirectory
  readonly #owned: AsyncDisposableStack

  private constructor(host: HostNamespace, pod: PodSpec, directory: TemporaryDirectory, owned: AsyncDisposableStack) {
    this.host = host
    this.pod = pod
    this.#directory = directory
    this.#owned = owned
  }

  /** Creates a node with the pod's image, and with the directories that kubelet creates for the pod. */
  static async create(pod: PodSpec): Promise<FreshNode> {
    await using stack = new AsyncDisposableStack()
    const host = stack.use(await HostNamespace.create())
    const directory = stack.use(await TemporaryDirectory.create("cni-fresh", dirname(builtPlugins)))
    const node = new FreshNode(host, pod, directory, stack.move())
    layTree(directory.join("image"), await imageFiles(), 0)
    await mustRun([
      "musl-gcc",
      "-static",
      "-idirafter",
      "/usr/include",
      "-idirafter",
      "/usr/include/x86_64-linux-gnu",
      "-o",
      directory.join("contain"),
      join(import.meta.dir, "contain.c"),
    ])
    await mkdir(directory.join("node"))
    await Bun.write(directory.join("network/10-pods.conflist"), await readConflist())
    await mkdir(directory.join("account"))
    for (const { hostPath } of pod.volumes) {
      if (hostPath?.type === "DirectoryOrCreate") await mkdir(node.at(hostPath.path), { recursive: true })
    }
    for (const path of statePaths) await host.exec("mount", ["--bind", node.at(path), path])
    return node
  }

  /** Returns the path on this machine of a file of the node. */
  at(path: string): string {
    return sharedPaths.test(path) ? path : this.#directory.join("node", path)
  }

  /** Returns the names of the files in a directory of the node, without those that the installer keeps for itself. */
  async list(path: string): Promise<string[]> {
    return (await readdir(this.at(path))).filter((name) => !name.startsWith(".")).sort()
  }

  /** Writes a file of the agent's service account, as kubelet does. */
  async writeAccount(name: string, text: string): Promise<void> {
    await Bun.write(this.#directory.join("account", name), text)
  }

  /** Runs the tool that was installed on the node, on the node. */
  cni(words: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<Output> {
    const places = [`--bin-dir=${this.at("/opt/cni/bin")}`, `--conf-dir=${this.at("/etc/cni/net.d")}`]
    return this.host.tryExec(this.at("/opt/cni/bin/cni"), [...words, ...places], { env: { ...programEnv, ...env } })
  }

  /** Runs a container until it ends. If given, `args` replace the container's arguments, like `kubectl exec`. */
  async run(name: string, args?: readonly string[]): Promise<Output> {
    return await runProgram(...(await this.#prepare(name, {}, args)))
  }

  /** Starts a container, which ends with the node. `logOf` returns its output. */
  async start(name: string, env: Readonly<Record<string, string>> = {}): Promise<Bun.Subprocess> {
    const [command, options] = await this.#prepare(name, env)
    const log = Bun.file(this.#directory.join(`${name}.log`))
    const program = Bun.spawn([...command], { env: { ...options.env }, stdio: ["ignore", log, log] })
    this.#owned.defer(async () => {
      program.kill("SIGKILL") // unshare(1) ignores SIGTERM; the container ends with it
      await program.exited
    })
    return program
  }

  /** Returns the output of a started container. */
  logOf(name: string): Promise<string> {
    return Bun.file(this.#directory.join(`${name}.log`)).text()
  }

  async #prepare(name: string, env: Readonly<Record<string, string>>, other?: readonly string[]) {
    const container = [...this.pod.initContainers, ...this.pod.containers].find((one) => one.name === name)
    if (!container) throw new Error(`The pod has no container "${name}"`)
    const root = this.#directory.join(`root-${name}-${crypto.randomUUID()}`)
    await mustRun(["cp", "-al", this.#directory.join("image"), root])
    for (const path of ["proc", "sys", "dev"]) await mkdir(join(root, path))
    const { securityContext: context, command = [entrypoint], args } = container
    const names = context.capabilities.add as (keyof typeof capabilities)[]
    const mask = names.reduce((sum, one) => sum + 2 ** capabilities[one], 0).toString(16)
    const contained = [
      this.#directory.join("contain"),
      ...[root, mask, context.allowPrivilegeEscalation === false ? "1" : "0"],
      ...[...command, ...(other ?? args).map((word) => expand(word, env))],
    ]
    const own = ["unshare", "--mount", "--propagation=slave", "--pid", "--fork", "--kill-child"]
    const script = `root='${root}' masked='${protectedPaths.maskedPaths.join(" ")}' readonly='${protectedPaths.readonlyPaths.join(" ")}'
mounts='${this.#mountsOf(container)}'
${enter}`
    const clean = ["env", "-i", ...Object.entries(env).map(([key, value]) => `${key}=${value}`)]
    const words = this.host.commandLine([...own, "sh", "-ec", script, "sh", ...clean, ...contained])
    return [words, { env: programEnv }] as const
  }

  #mountsOf({ volumeMounts }: ContainerSpec): string {
    const lines = volumeMounts.map(({ name, mountPath, subPath = "", readOnly, mountPropagation = "None" }) => {
      const volume = this.pod.volumes.find((one) => one.name === name)
      const source = volume?.hostPath ? this.at(volume.hostPath.path) : this.#directory.join(name)
      return [join(source, subPath), mountPath, readOnly ? "ro" : "rw", mountPropagation].join(" ")
    })
    return lines.join("\n")
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#owned.disposeAsync()
  }
}

/** Replaces kubelet's variables in a word of a command line. */
function expand(word: string, env: Readonly<Record<string, string>>): string {
  return word.replace(/\$\((\w+)\)/g, (written, name) => env[name] ?? written)
}

/** Returns the files of the image, built for this machine. */
async function imageFiles(): Promise<PlacedFile[]> {
  const read = async (path: string, from: string): Promise<PlacedFile> => ({
    path,
    mode: 0o755,
    bytes: await Bun.file(from).bytes(),
  })
  return await Promise.all([
    ...pluginNames.map((name) => read(`opt/cni/bin/${name}`, join(builtPlugins, name))),
    read("opt/cni/bin/cni", join(builtPlugins, "../cni")),
    read("usr/local/bin/cni-agent", join(builtPlugins, "../cni-agent")),
    ...(await libraryFiles(targets.amd64)),
  ])
}
