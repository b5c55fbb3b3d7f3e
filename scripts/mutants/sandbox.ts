import { readlinkSync } from "node:fs"
import { mkdir, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { execa } from "execa"

/**
 * How a program in a sandbox ended: its exit code, `undefined` when it was killed for its time, and what it printed.
 */
export interface Ended {
  readonly exitCode: number | undefined
  readonly output: string
}

/** What a program may take of memory, in KiB: a loop that a mistake has made endless ends here or by its time. */
const memoryKib = 4_000_000

/**
 * The machine's own root with a layer above it that takes all writes: a mistake in "remove the file" or "kill the
 * process" meets nothing but this. Programs run in a PID namespace of their own, and nothing of them outlives the call.
 */
export class Sandbox {
  readonly #root: string
  readonly #tree: string

  private constructor(root: string, tree: string) {
    this.#root = root
    this.#tree = tree
  }

  /**
   * Makes as many, which last as long as this process' mount namespace does, which with its network namespace is not
   * the machine's; `tree` is the repository. They lie in /mnt, so that the machine keeps nothing of them.
   */
  static async create(tree: string, count: number): Promise<Sandbox[]> {
    if (readlinkSync("/proc/self/ns/mnt") === readlinkSync(`/proc/${process.ppid}/ns/mnt`))
      throw new Error("Cannot mount here: call this by `npm run test:mutants`, which has namespaces of its own")
    await execa("mount", ["-t", "tmpfs", "tmpfs", "/mnt"])
    const roots = Array.from({ length: count }, (_, at) => `/mnt/${at}/root`)
    for (const root of roots) {
      const [upper, work] = [join(root, "../upper"), join(root, "../work")]
      for (const directory of [root, upper, work]) await mkdir(directory, { recursive: true })
      const layers = `lowerdir=/,upperdir=${upper},workdir=${work}`
      await execa("mount", ["-t", "overlay", "overlay", "-o", layers, root])
      for (const name of ["dev", "sys"]) await execa("mount", ["--rbind", `/${name}`, join(root, name)])
    }
    return roots.map((root) => new Sandbox(root, tree))
  }

  /** Writes a file of the repository, in the sandbox only. */
  async write(file: string, source: string): Promise<void> {
    await writeFile(join(this.#root, this.#tree, file), source)
  }

  /** Runs a program in the repository. */
  async run(command: readonly string[], timeoutMs: number): Promise<Ended> {
    const namespaces = ["--pid", "--mount", "--fork", "--kill-child=KILL"]
    // The shell stays as the first process of the namespace: with it everything else ends.
    // Its root is the namespace's, which is where nsenter(1) leads to; mounts spread from here to the hosts of tests.
    const script = `mount -t proc proc "$1/proc" && cd "$1" && pivot_root . mnt && umount -l /mnt && mount --make-rshared / &&
      ulimit -d ${memoryKib} && cd "$2" && shift 2 && "$@"; exit $?`
    const { exitCode, all } = await execa(
      "unshare",
      [...namespaces, "sh", "-c", script, "sh", this.#root, this.#tree, ...command],
      { all: true, reject: false, stdin: "ignore", timeout: timeoutMs, killSignal: "SIGKILL", maxBuffer: 4_000_000 },
    )
    return { exitCode, output: all ?? "" }
  }
}
