import { existsSync } from "node:fs"
import { chmod, readFile, rm } from "node:fs/promises"
import { join } from "node:path"
import { cached, hashOf, run } from "../../scripts/cache.ts"
import {
  HostNamespace,
  mustRun,
  Namespace,
  namespacePids,
  type Output,
  programEnv,
  runProgram,
  startDaemon,
  TemporaryDirectory,
  waitFor,
} from "../lab/mod.ts"

/** The packages of a node in addition to Debian's minimal base, for downloads and for network namespaces. */
const onEachNode = ["ca-certificates", "curl", "iproute2", "iputils-ping"]

/** Returns the read-only directory of a minimal Debian with more packages, created once by debootstrap. */
export function minimalDebian(...packages: readonly string[]): Promise<string> {
  const all = [...onEachNode, ...packages]
  return cached(`debian-${hashOf(...all).slice(0, 16)}`, async (into) => {
    await run(["debootstrap", "--variant=minbase", `--include=${all.join(",")}`, "bookworm", into])
    await chmod(into, 0o755)
    for (const kept of ["var/cache/apt", "var/lib/apt/lists"]) await rm(join(into, kept), { recursive: true })
    await mustRun([
      "mkdir",
      "-p",
      join(into, "var/lib/apt/lists/partial"),
      join(into, "var/cache/apt/archives/partial"),
    ])
  })
}

/** A script that registers the shell of a Debian with rpm, because packages require it. */
export const rpmOfTheSystem = `
cat >/tmp/system.spec <<'END'
Name: system
Version: 1
Release: 1
Summary: What packages of Debian have
License: none
BuildArch: noarch
Provides: /bin/sh
%description
The shell.
%files
END
rpmbuild -bb --quiet --define "_topdir /tmp/rpm" /tmp/system.spec
rpm --install /tmp/rpm/RPMS/noarch/*.rpm`

/**
 * A script that creates the root of a host: an overlay in memory above the unchanged directory $1. $2 is an empty
 * directory, and $3 is mounted at /mnt.
 */
const makeRoot = `
mount -t tmpfs -o mode=755 cni-test "$2"
mkdir "$2/up" "$2/work" "$2/root"
mount -t overlay overlay -o "lowerdir=$1,upperdir=$2/up,workdir=$2/work" "$2/root"
rm -f "$2/root/var/lib/man-db/auto-update" # an index of all manual pages would be made with each package
mount --bind "$3" "$2/root/mnt"
cd "$2/root"
mount --make-rshared . # system extensions and named namespaces appear by propagation
mount -t proc proc proc
mount -t sysfs sysfs sys
mount --rbind /dev dev
mount -t tmpfs -o mode=755 cni-test run
exec chroot . /bin/sh -c 'cd; >/run/is-ready; trap : CHLD; while :; do sleep infinity & wait; done'`

/**
 * A host with its own root file system, processes and network, for tests that follow the commands of a page. All
 * changes are deleted with the host. Needs root.
 *
 * @example
 * await using host = await FreshRoot.create(await minimalDebian(), release.path)
 * await host.follow("apt-get install /mnt/cni-plugins_0.1.0-1_amd64.deb")
 */
export class FreshRoot extends Namespace implements AsyncDisposable {
  readonly #host: HostNamespace
  readonly #scratch: TemporaryDirectory
  /** The process ID, on the machine, of the host's process 1. */
  readonly #init: number

  private constructor(host: HostNamespace, scratch: TemporaryDirectory, init: number) {
    super(host.name)
    this.#host = host
    this.#scratch = scratch
    this.#init = init
  }

  /**
   * Creates a host with the files of `base`. If `base` is "/", they are this machine's. `shared` is mounted at /mnt.
   */
  static async create(base: string, shared: string): Promise<FreshRoot> {
    const host = await HostNamespace.create("fresh")
    const scratch = await TemporaryDirectory.create("cni-fresh")
    try {
      const isolated = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private"]
      const command = [...isolated, "sh", "-ec", makeRoot, "sh", base, scratch.path, shared]
      await startDaemon(host.commandLine(command))
      return new FreshRoot(host, scratch, await findInit(host))
    } catch (error) {
      await host[Symbol.asyncDispose]()
      await scratch[Symbol.asyncDispose]()
      throw error
    }
  }

  /** Returns the path under which this process reaches a file of the host. */
  file(path: string): string {
    return `/proc/${this.#init}/root${path}`
  }

  commandLine(command: readonly string[]): string[] {
    const enter = ["--target", String(this.#init), "--net", "--mount", "--pid", "--root", "--wd"]
    return [Bun.which("nsenter") ?? "nsenter", ...enter, "--", ...command]
  }

  /**
   * Runs commands in bash in /root, like a user who pastes them and answers yes to every question. Stops at the first
   * failure. Returns the output. `variables` are environment variables that the page tells the user to set.
   */
  tryFollow(commands: string, variables: Readonly<Record<string, string>> = {}): Promise<Output> {
    const env = { ...programEnv, HOME: "/root", TERM: "dumb", ...variables }
    return runProgram(this.commandLine(["bash", "-ec", `cd /root\n${commands}`]), { env, input: "y\n" })
  }

  /** Runs commands and returns their output. If a command fails, throws the output. */
  async follow(commands: string, variables: Readonly<Record<string, string>> = {}): Promise<string> {
    const { exitCode, stdout, stderr } = await this.tryFollow(commands, variables)
    if (exitCode !== 0) throw new Error(`Exit code ${exitCode} of\n${commands}\n${stdout}\n${stderr}`)
    return stdout
  }

  /** Returns the root's files with checksums and modes, without package managers, logs, caches and /root. */
  async files(): Promise<string[]> {
    const passed = [
      "/root",
      "/tmp",
      "/mnt",
      "/var/cache",
      "/var/log",
      "/var/lib/dpkg",
      "/var/lib/apt",
      "/var/lib/rpm",
      "/var/lib/dnf",
    ]
    const prune = passed.flatMap((path) => ["-path", path, "-prune", "-o"])
    const { stdout } = await this.exec("find", ["/", "-xdev", ...prune, "!", "-type", "d", "-printf", "%p %m %s %l\\n"])
    return stdout.trim().split("\n").sort()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    process.kill(this.#init, "SIGKILL") // the kernel kills the rest of the process tree
    await this.#host[Symbol.asyncDispose]()
    await this.#scratch[Symbol.asyncDispose]()
  }
}

/** Waits until process 1 runs in its new root, and returns its process ID. */
function findInit(host: HostNamespace): Promise<number> {
  return waitFor(async () => {
    for (const pid of await namespacePids(host.name)) {
      const status = await readFile(`/proc/${pid}/status`, "utf8").catch(() => "")
      if (/^NSpid:\t\d+\t1$/m.test(status) && existsSync(`/proc/${pid}/root/run/is-ready`)) return pid
    }
    return undefined
  }, `the root of ${host.name}`)
}
