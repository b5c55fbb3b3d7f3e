import { existsSync } from "node:fs"
import { readFile } from "node:fs/promises"

/** The memory that processes in a `SmallCgroup` have, in bytes. */
const limit = 16 << 20

/**
 * Makes a memory cgroup below that of the machine, prints its directory, and removes it when stdin ends. The hierarchy
 * is mounted here, in its own mount namespace, since not every root has one: version 2 where that has the controller,
 * else version 1.
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

/** Succeeds, and leaves nothing, where such a cgroup can be made. */
export const smallCgroupCommand = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script] as const

/**
 * A memory cgroup of 16 MB for processes of a test, removed at the end of the scope. Needs the feature `memory_cgroup`.
 */
export class SmallCgroup implements AsyncDisposable {
  readonly #holder: Bun.Subprocess<"pipe", "pipe", "inherit">
  readonly #directory: string

  private constructor(holder: Bun.Subprocess<"pipe", "pipe", "inherit">, directory: string) {
    this.#holder = holder
    this.#directory = directory
  }

  /** Throws where the machine lets this process make none. */
  static async create(): Promise<SmallCgroup> {
    const holder = Bun.spawn([...smallCgroupCommand], { stdin: "pipe", stdout: "pipe", stderr: "inherit" })
    const { value } = await holder.stdout.getReader().read()
    const directory = new TextDecoder().decode(value).trim()
    if (directory === "") throw new Error("Cannot make a memory cgroup: the machine refuses it")
    return new SmallCgroup(holder, `/proc/${holder.pid}/root${directory}`)
  }

  /** The file that moves a process there, also from another mount namespace. */
  get door(): string {
    return `${this.#directory}/cgroup.procs`
  }

  /** The most that its processes have used, in bytes. */
  async peak(): Promise<number> {
    const names = ["memory.peak", "memory.max_usage_in_bytes"].map((name) => `${this.#directory}/${name}`)
    return Number(await readFile(names.find((name) => existsSync(name)) ?? "", "utf8"))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#holder.stdin.end()
    await this.#holder.exited
  }
}
