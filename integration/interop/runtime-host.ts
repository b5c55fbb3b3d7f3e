import { existsSync } from "node:fs"
import { chmod, mkdir, readFile, writeFile } from "node:fs/promises"
import { dirname } from "node:path"
import {
  HostNamespace,
  Namespace,
  namespacePids,
  privateDirectories,
  programEnv,
  type Snapshot,
  startDaemon,
  takeSnapshot,
  waitFor,
} from "../lab/mod.ts"

/** The directory of programs that replace Debian's on the host, such as `runc` below. */
const ownPrograms = "/run/bin"

/** The environment of runtimes. Programs in the directories of `CNI_RUNTIME_PROGRAMS` take precedence over Debian's. */
export const runtimeEnv: Readonly<Record<string, string>> = {
  ...programEnv,
  PATH: [ownPrograms, process.env.CNI_RUNTIME_PROGRAMS, programEnv.PATH].filter(Boolean).join(":"),
}

/**
 * A runc that ignores two requests of runtimes: CPU shares, because the cgroup tree of a test may lack the controller,
 * and a negative OOM score, because that needs CAP_SYS_RESOURCE.
 */
const runc = `#!/bin/sh
for word; do
  [ "$previous" != --bundle ] || sed --in-place 's/"shares": *[0-9]*,*//; s/"oomScoreAdj": *-[0-9]*/"oomScoreAdj":0/' "$word/config.json"
  previous=$word
done
exec /usr/sbin/runc "$@"
`

/** The directory in which runtimes search network configurations. Each host has its own, which is initially empty. */
export const confDir = "/etc/cni/net.d"

/**
 * A host for container runtimes: a `HostNamespace` with its own process tree, so that everything that a runtime starts
 * ends with the host. The host has its own /run, /etc/cni and /opt, and its own part of the cgroup tree, because
 * runtimes write there. Needs root.
 *
 * @example
 * await using host = await RuntimeHost.create()
 * await host.write("/etc/cni/net.d/10-lab.conflist", conflist)
 */
export class RuntimeHost extends Namespace implements AsyncDisposable {
  readonly #host: HostNamespace
  /** The process ID, on the machine, of the host's process 1. */
  readonly #init: number

  private constructor(host: HostNamespace, init: number) {
    super(host.name)
    this.#host = host
    this.#init = init
  }

  static async create(): Promise<RuntimeHost> {
    const host = await HostNamespace.create("runtime")
    try {
      await host.exec("sh", ["-ec", privateMounts, "sh", cgroupOf(host)])
      const runtimeHost = new RuntimeHost(host, await startInit(host))
      await runtimeHost.write(`${ownPrograms}/runc`, runc)
      await chmod(runtimeHost.file(`${ownPrograms}/runc`), 0o755)
      return runtimeHost
    } catch (error) {
      await host[Symbol.asyncDispose]()
      throw error
    }
  }

  /** Returns the path under which this process reaches a file of the host. */
  file(path: string): string {
    return `/proc/${this.#init}/root${path}`
  }

  /** Writes a file of the host: `content` itself if it is text, otherwise as JSON. */
  async write(path: string, content: string | object): Promise<void> {
    await mkdir(dirname(this.file(path)), { recursive: true })
    await writeFile(this.file(path), typeof content === "string" ? content : JSON.stringify(content, null, 2))
  }

  commandLine(command: readonly string[]): string[] {
    const enter = ["--target", String(this.#init), "--net", "--mount", "--pid", "--cgroup"]
    return [Bun.which("nsenter") ?? "nsenter", ...enter, "--", ...command]
  }

  /** Returns all that plugins and runtimes may leave: network, packet filter, sysctls, CNI files, named namespaces. */
  snapshot(): Promise<Snapshot> {
    return takeSnapshot(this.#host, [...privateDirectories, "/run/netns"])
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      process.kill(this.#init, "SIGKILL") // the kernel kills the rest of the process tree
      const cgroup = cgroupOf(this.#host)
      const remove = () => this.#host.exec("find", [cgroup, "-depth", "-type", "d", "-exec", "rmdir", "{}", "+"])
      await waitFor(remove, `the processes in ${cgroup} to end`)
    } finally {
      await this.#host[Symbol.asyncDispose]()
    }
  }
}

/** Returns the part of the machine's cgroup tree that the host sees as the whole tree. */
function cgroupOf({ name }: HostNamespace): string {
  return `/sys/fs/cgroup/${name}`
}

/**
 * A script that mounts the host's own directories and creates the cgroup $1. It removes empty cgroups of killed test
 * processes; the scripts of other hosts may remove them at the same time. /opt keeps its content, because the plugins
 * under test may be in it.
 */
const privateMounts = `
  umount --lazy /run/netns # the machine's: a runtime that looks for the mount of this path finds the first
  mount -t tmpfs -o mode=755 cni-test /run
  mkdir /run/netns /run/lock /run/opt /run/opt-work
  mount -t overlay -o lowerdir=/opt,upperdir=/run/opt,workdir=/run/opt-work cni-test /opt
  mount -t tmpfs -o mode=755 cni-test /etc/cni
  mkdir -p ${confDir} /opt/cni/bin
  mount -t cgroup2 cni-test /sys/fs/cgroup
  for old in /sys/fs/cgroup/cnit-*; do
    pid=\${old##*/cnit-}
    [ ! -e "$old" ] || [ -e "/proc/\${pid%%-*}" ] || find "$old" -depth -type d -exec rmdir {} + || :
  done
  mkdir "$1"`

/** The program of process 1, which only reaps orphans, as every init must. */
const init = `
  umount /sys/fs/cgroup
  mount -t cgroup2 cni-test /sys/fs/cgroup
  touch /run/ready
  trap : CHLD
  while :; do sleep infinity & wait; done`

/** Starts the process tree, and returns the process ID of its process 1 on the machine. */
async function startInit(host: HostNamespace): Promise<number> {
  const unshare = "unshare --pid --fork --kill-child --mount --mount-proc --cgroup"
  const script = `echo $$ > "$1/cgroup.procs" && exec ${unshare} bash -ec "$2"`
  await startDaemon(host.commandLine(["sh", "-ec", script, "sh", cgroupOf(host), init]))
  return waitFor(async () => {
    if (!existsSync(host.file("/run/ready"))) return undefined
    for (const pid of await namespacePids(host.name)) {
      if (/^NSpid:\t\d+\t1$/m.test(await readFile(`/proc/${pid}/status`, "utf8"))) return pid
    }
    return undefined
  }, `the process tree of ${host.name}`)
}
