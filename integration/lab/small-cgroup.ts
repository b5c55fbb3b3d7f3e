import { existsSync } from "node:fs"
import { readFile } from "node:fs/promises"

/** The memory limit of the cgroup, in bytes. */
const limit = 16 << 20

/**
 * A shell script that creates a memory cgroup, prints its directory, and removes it when stdin ends. The script mounts
 * the cgroup hierarchy in its own mount namespace, because some machines have not mounted it. It uses cgroup version 2
 * if that has the memory controller, else version 1.
 */
const script = `set -e
mount -t cgroup2 cgroup2 /mnt
if grep -qsw memory /mnt/cgroup.controllers; then
  limit=memory.max
  if ! grep -qw memory /mnt/cgroup.subtree_control; then
    echo +memory >/mnt/cgroup.subtree_control
    trap 'echo -memory >/mnt/cgroup.subtree_control' EXIT
  fi
else
  umount /mnt
  mount -t cgroup -o memory cgroup /mnt
  limit=memory.limit_in_bytes
fi
mkdir /mnt/cni-test-$$
(
  trap 'rmdir /mnt/cni-test-$$' EXIT
  echo ${limit} >/mnt/cni-test-$$/$limit
  echo /mnt/cni-test-$$
  cat >/dev/null
)`

/**
 * A command that creates a memory cgroup with the limit, and removes it when stdin ends. Fails if the machine refuses.
 */
export const smallCgroupCommand = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script] as const

/** A memory cgroup with a limit of 16 MB for a test's processes, until disposal. Needs feature `memory_cgroup`. */
export class SmallCgroup implements AsyncDisposable {
  readonly #holder: Bun.Subprocess<"pipe", "pipe", "inherit">
  readonly #directory: string

  private constructor(holder: Bun.Subprocess<"pipe", "pipe", "inherit">, directory: string) {
    this.#holder = holder
    this.#directory = directory
  }

  /** Creates a cgroup. Throws if the machine refuses it. */
  static async create(): Promise<SmallCgroup> {
    const holder = Bun.spawn([...smallCgroupCommand], { stdin: "pipe", stdout: "pipe", stderr: "inherit" })
    const { value } = await holder.stdout.getReader().read()
    const directory = new TextDecoder().decode(value).trim()
    if (directory === "") throw new Error("Cannot make a memory cgroup: the machine refuses it")
    return new SmallCgroup(holder, `/proc/${holder.pid}/root${directory}`)
  }

  /** The file to which a process ID is written to move that process into the cgroup. Valid in every mount namespace. */
  get door(): string {
    return `${this.#directory}/cgroup.procs`
  }

  /** Returns the peak memory use of all processes in the cgroup, in bytes. */
  async peak(): Promise<number> {
    const names = ["memory.peak", "memory.max_usage_in_bytes"].map((name) => `${this.#directory}/${name}`)
    return Number(await readFile(names.find((name) => existsSync(name)) ?? "", "utf8"))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#holder.stdin.end()
    await this.#holder.exited
  }
}
