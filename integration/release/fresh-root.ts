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

/**
 * What a node has besides Debian's minimal base: what fetches a file, and what makes and looks at network namespaces.
 */
const onEachNode = ["ca-certificates", "curl", "iproute2", "iputils-ping"]

/**
 * A minimal Debian with some packages more, which debootstrap makes once for this machine: its directory, which is not
 * to be changed.
 */
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

/** Has rpm know the shell of a Debian, which packages ask for. */
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
 * Makes the root of a host: a layer of memory above a directory that stays as it is. $1 is that directory, $2 an empty
 * one, $3 what is seen as /mnt.
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
 * A host with a root file system, processes and a network of its own, in which a page is followed: what it changes goes
 * with it. Needs root.
 * @example
 * await using host = await FreshRoot.create(await minimalDebian(), release.path)
 * await host.follow("apt-get install /mnt/cni-plugins_0.1.0-1_amd64.deb")
 */
export class FreshRoot extends Namespace implements AsyncDisposable {
  readonly #host: HostNamespace
  readonly #scratch: TemporaryDirectory
  /** Process 1 of the host, by the number that the machine knows it by. */
  readonly #init: number

  private constructor(host: HostNamespace, scratch: TemporaryDirectory, init: number) {
    super(host.name)
    this.#host = host
    this.#scratch = scratch
    this.#init = init
  }

  /** Makes a host whose files are those of `base`; "/" is this machine. `shared` is seen in it as /mnt. */
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

  /** The path under which the test sees a file of the host. */
  file(path: string): string {
    return `/proc/${this.#init}/root${path}`
  }

  commandLine(command: readonly string[]): string[] {
    const enter = ["--target", String(this.#init), "--net", "--mount", "--pid", "--root", "--wd"]
    return [Bun.which("nsenter") ?? "nsenter", ...enter, "--", ...command]
  }

  /**
   * Has bash carry out commands in /root, as a user who pastes them and says yes to what is asked; it stops at the
   * first that fails. Returns how that ended. `variables` are those that the page has the user set.
   */
  tryFollow(commands: string, variables: Readonly<Record<string, string>> = {}): Promise<Output> {
    const env = { ...programEnv, HOME: "/root", TERM: "dumb", ...variables }
    return runProgram(this.commandLine(["bash", "-ec", `cd /root\n${commands}`]), { env, input: "y\n" })
  }

  /** The same for commands that have to succeed; returns what they say. Throws with what they say. */
  async follow(commands: string, variables: Readonly<Record<string, string>> = {}): Promise<string> {
    const { exitCode, stdout, stderr } = await this.tryFollow(commands, variables)
    if (exitCode !== 0) throw new Error(`Exit code ${exitCode} of\n${commands}\n${stdout}\n${stderr}`)
    return stdout
  }

  /**
   * The files of the root with their sums and modes, without those of package managers, logs and caches, and of /root,
   * where files were fetched to.
   */
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
    process.kill(this.#init, "SIGKILL") // the kernel ends the rest of the tree
    await this.#host[Symbol.asyncDispose]()
    await this.#scratch[Symbol.asyncDispose]()
  }
}

/** Waits until process 1 is there and has changed its root. */
function findInit(host: HostNamespace): Promise<number> {
  return waitFor(async () => {
    for (const pid of await namespacePids(host.name)) {
      const status = await readFile(`/proc/${pid}/status`, "utf8").catch(() => "")
      if (/^NSpid:\t\d+\t1$/m.test(status) && existsSync(`/proc/${pid}/root/run/is-ready`)) return pid
    }
    return undefined
  }, `the root of ${host.name}`)
}
