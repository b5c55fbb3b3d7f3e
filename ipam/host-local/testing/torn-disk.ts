import { linkSync, lstatSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { setModified, stat } from "../../../pkg/libc/mod.ts"
import { type Files, kernelFiles } from "../files.ts"

/** A file's content, and the time of the write. */
interface Content {
  readonly bytes: Buffer
  readonly modified: bigint
}

/** The names in a store, each with the number of its file; of a directory 0. */
type Names = ReadonlyMap<string, number>

/** How much of a file reached the disk before the power went. */
export type Kept =
  | "nothing"
  | "zeros"
  | "half, then zeros"
  | "what it was then"
  | "what it was at last"
  | "what it was at first"

export const everyKept: readonly Kept[] = [
  "nothing",
  "zeros",
  "half, then zeros",
  "what it was then",
  "what it was at last",
  "what it was at first",
]

/**
 * Everything that a store was, from one system call to the next: of this a file system keeps what it likes when the
 * power goes. The names of each directory are those after some call, since a journal has them in order. What was
 * written to a file may be on the disk, be missing, or be zeros, whether names are there or not: nothing was synced.
 */
export class TornDisk {
  readonly #directory: string
  readonly #moments: Names[] = []
  /** The contents of each file, in order; the first entry is of the moment at the same place in `#since`. */
  readonly #contents = new Map<number, { readonly since: number; readonly content: Content }[]>()
  /** The system calls, after each of which the store is looked at. */
  readonly files: Files

  constructor(directory: string) {
    this.#directory = directory
    this.files = Object.fromEntries(
      Object.entries(kernelFiles).map(([name, call]: [string, unknown]) => [
        name,
        (...args: unknown[]) => {
          const value = (call as (...args: unknown[]) => unknown)(...args)
          if (changing.has(name)) this.#look()
          return value
        },
      ]),
    ) as unknown as Files
  }

  /** How many moments there are. */
  get moments(): number {
    return this.#moments.length
  }

  /**
   * Has a directory become what the disk has of the store: the names as after the moments, the files as much as is
   * kept.
   */
  restore(
    to: string,
    momentOf: (directory: string) => number,
    keptOf: (file: number, directory: string) => Kept,
  ): void {
    const names = new Map<string, number>()
    for (const at of new Set(["", ".index", ".index/new"])) {
      for (const [name, file] of this.#moments[momentOf(at)] ?? []) if (directoryOf(name) === at) names.set(name, file)
    }
    mkdirSync(to, { recursive: true })
    const directories = new Set([""])
    const made = new Map<number, string>()
    for (const [name, file] of [...names].sort()) {
      const path = join(to, name)
      if (!directories.has(directoryOf(name))) continue
      const other = made.get(file)
      if (file === 0) {
        mkdirSync(path)
        directories.add(name)
      } else if (other !== undefined) linkSync(other, path)
      else {
        this.#write(path, file, keptOf(file, directoryOf(name)), momentOf(directoryOf(name)))
        made.set(file, path)
      }
    }
  }

  #write(path: string, file: number, kept: Kept, moment: number): void {
    const all = this.#contents.get(file) ?? []
    const then = all.findLast(({ since }) => since <= moment) ?? all[0]
    const { bytes, modified } = (kept === "what it was at last"
      ? all.at(-1)
      : kept === "what it was at first"
        ? all[0]
        : then
    )?.content ?? { bytes: Buffer.alloc(0), modified: 0n }
    writeFileSync(path, torn(bytes, kept))
    setModified(path, modified)
  }

  #look(): void {
    const names = new Map<string, number>()
    const files = readdirSync(this.#directory, { recursive: true, encoding: "utf8" })
    for (const name of files) {
      const path = join(this.#directory, name)
      const found = lstatSync(path)
      names.set(name, found.isDirectory() ? 0 : found.ino)
      if (found.isDirectory()) continue
      const all = this.#contents.get(found.ino) ?? []
      const bytes = readFileSync(path)
      if (!all.at(-1)?.content.bytes.equals(bytes)) {
        all.push({ since: this.#moments.length, content: { bytes, modified: stat(path).modified } })
      }
      this.#contents.set(found.ino, all)
    }
    this.#moments.push(names)
  }
}

const changing = new Set<string>([
  "createFile",
  "link",
  "makeDirectories",
  "open",
  "setModified",
  "truncate",
  "unlink",
  "writeAt",
  "writeExisting",
] satisfies (keyof Files)[])

function directoryOf(name: string): string {
  const directory = dirname(name)
  return directory === "." ? "" : directory
}

function torn(bytes: Buffer, kept: Kept): Buffer {
  if (kept === "nothing") return Buffer.alloc(0)
  if (kept === "zeros") return Buffer.alloc(bytes.length)
  if (kept !== "half, then zeros") return bytes
  const half = bytes.length >> 1
  return Buffer.concat([bytes.subarray(0, half), Buffer.alloc(bytes.length - half)])
}
