import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { type Chance, type HostNamespace, TemporaryDirectory } from "../lab/mod.ts"

/** The file systems under test and their minimum sizes. */
export const fileSystems = { ext4: "64M", xfs: "320M" } as const

/**
 * A disk of a host: a file system in a file. A copy of the file is an image of the disk as after a power cut: it lacks
 * the data that the kernel has not written yet.
 */
export class FailingDisk implements AsyncDisposable {
  readonly #directory: TemporaryDirectory
  readonly #host: HostNamespace
  /** The loop device, like "loop3". */
  readonly #device: string

  private constructor(directory: TemporaryDirectory, host: HostNamespace, device: string) {
    this.#directory = directory
    this.#host = host
    this.#device = device
  }

  /** Creates a disk and mounts it on a directory of the host. */
  static async create(host: HostNamespace, fileSystem: keyof typeof fileSystems, at: string): Promise<FailingDisk> {
    await using stack = new AsyncDisposableStack()
    const directory = stack.use(await TemporaryDirectory.create("cni-power-cut", "/var/tmp"))
    const image = directory.join("disk")
    await host.exec("truncate", ["--size", fileSystems[fileSystem], image])
    await host.exec(`mkfs.${fileSystem}`, ["-q", image])
    await mountImage(host, image, at)
    const device = (await host.exec("findmnt", ["--noheadings", "--output", "SOURCE", at])).stdout.trim()
    stack.move()
    return new FailingDisk(directory, host, device.replace("/dev/", ""))
  }

  /** Copies the disk to a new image, and returns its path. */
  async cut(number: number): Promise<string> {
    const image = this.#directory.join(`cut-${number}`)
    for (;;) {
      const before = this.#written()
      await this.#host.exec("cp", ["--sparse=always", this.#directory.join("disk"), image])
      if (before === this.#written()) return image // a write during the copy could leave a later block without an earlier one
    }
  }

  /** Copies the disk as `cut` does, but synchronously: no other code of this process runs during the copy. */
  cutNow(number: number): string {
    const image = this.#directory.join(`cut-${number}`)
    for (;;) {
      const before = this.#written()
      const { exitCode } = Bun.spawnSync(["cp", "--sparse=always", this.#directory.join("disk"), image])
      if (exitCode !== 0) throw new Error(`Cannot copy the disk to "${image}": exit code ${exitCode}`)
      if (before === this.#written()) return image
    }
  }

  /** Returns the kernel's counters of completed and pending writes. */
  #written(): string {
    const [, , , , writes, , sectors, , inFlight] = readFileSync(`/sys/block/${this.#device}/stat`, "utf8")
      .trim()
      .split(/\s+/)
    return inFlight === "0" ? `${writes} ${sectors}` : `${Math.random()}`
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#directory[Symbol.asyncDispose]()
  }
}

/** Mounts an image in the host. The kernel replays the journal of the image's file system. */
export async function mountImage(host: HostNamespace, image: string, at: string): Promise<void> {
  await host.exec("mkdir", ["-p", at])
  await host.exec("mount", ["-o", "loop", image, at])
}

/**
 * Writes a file other than host-local's and calls fsync(2) on it. The journal then commits the names of all files, but
 * not their data.
 */
export async function syncAnother(host: HostNamespace, disk: string): Promise<void> {
  await host.exec("dd", ["if=/dev/zero", `of=${disk}/other`, "bs=4k", "count=4", "conv=fsync", "status=none"])
}

/**
 * Makes the kernel write a random part of the cached data to the disk: all file names, some files of a store, or
 * everything.
 */
export async function disturb(host: HostNamespace, chance: Chance, disk: string, store: string): Promise<void> {
  const index = tryList(host.file(join(store, ".index"))).map((name) => join(store, ".index", name))
  const files = tryList(host.file(store)).map((name) => join(store, name))
  const what = chance.below(12)
  if (what === 0) await host.exec("sync", ["--file-system", disk])
  else if (what < 7 || files.length === 0) await syncAnother(host, disk)
  else await host.tryExec("sync", ["--data", chance.of(what < 10 ? files : index)]) // fails if the file was deleted
}

function tryList(directory: string): string[] {
  try {
    return readdirSync(directory)
  } catch {
    return []
  }
}
