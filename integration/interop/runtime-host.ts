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

/** Programs of the host itself, such as `runc` below. */
const ownPrograms = "/run/bin"

/** The environment of runtimes: programs in the directories of `CNI_RUNTIME_PROGRAMS` precede Debian's. */
export const runtimeEnv: Readonly<Record<string, string>> = {
  ...programEnv,
  PATH: [ownPrograms, process.env.CNI_RUNTIME_PROGRAMS, programEnv.PATH].filter(Boolean).join(":"),
}

/**
 * runc without shares of the processor, which runtimes request and for which the cgroup tree of a test may have no
 * controller, and without a score for the OOM killer below zero, which takes CAP_SYS_RESOURCE.
 */
const runc = `#!/bin/sh
for word; do
  [ "$previous" != --bundle ] || sed --in-place 's/"shares": *[0-9]*,*//; s/"oomScoreAdj": *-[0-9]*/"oomScoreAdj":0/' "$word/config.json"
  previous=$word
done
exec /usr/sbin/runc "$@"
`

/** The directory in which runtimes search network configurations; here it is an empty directory of the host. */
export const confDir = "/etc/cni/net.d"

/**
 * A host that container runtimes run on: a `HostNamespace` with a process tree of its own, so that all that a runtime
 * starts, in any namespace, ends with the host, and with its own /run, /etc/cni, /opt and part of the cgroup tree,
 * because that is where runtimes write. Needs root.
 * @example
 * await using host = await RuntimeHost.create()
 * await host.write("/etc/cni/net.d/10-lab.conflist", conflist)
 */
export class RuntimeHost extends Namespace implements AsyncDisposable {
  readonly #host: HostNamespace
  /** Process 1 of the tree, with its process ID on the machine. */
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

  /** The path under which the test sees a file of the host. */
  file(path: string): string {
    return `/proc/${this.#init}/root${path}`
  }

  /** Writes a file of the host; a value other than text is written as JSON. */
  async write(path: string, content: string | object): Promise<void> {
    await mkdir(dirname(this.file(path)), { recursive: true })
    await writeFile(this.file(path), typeof content === "string" ? content : JSON.stringify(content, null, 2))
  }

  commandLine(command: readonly string[]): string[] {
    const enter = ["--target", String(this.#init), "--net", "--mount", "--pid", "--cgroup"]
    return [Bun.which("nsenter") ?? "nsenter", ...enter, "--", ...command]
  }

  /** Everything that plugins and runtimes may leave: network, packet filter, sysctls, CNI's files, named namespaces. */
  snapshot(): Promise<Snapshot> {
    return takeSnapshot(this.#host, [...privateDirectories, "/run/netns"])
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      process.kill(this.#init, "SIGKILL") // the kernel ends the rest of the tree
      const cgroup = cgroupOf(this.#host)
      const remove = () => this.#host.exec("find", [cgroup, "-depth", "-type", "d", "-exec", "rmdir", "{}", "+"])
      await waitFor(remove, `the processes in ${cgroup} to end`)
    } finally {
      await this.#host[Symbol.asyncDispose]()
    }
  }
}

/** The host's part of the machine's cgroup tree, which it sees as the whole. */
function cgroupOf({ name }: HostNamespace): string {
  return `/sys/fs/cgroup/${name}`
}

/**
 * $1 is the cgroup to create. Removes empty cgroups of killed test processes, as other hosts do at the same time. /opt
 * keeps its content, because the plugins under test may be below it.
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

/** Process 1: only reaps orphans, as every init must. */
const init = `
  umount /sys/fs/cgroup
  mount -t cgroup2 cni-test /sys/fs/cgroup
  touch /run/ready
  trap : CHLD
  while :; do sleep infinity & wait; done`

/** Starts the process tree and returns the machine's process ID of its process 1. */
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
