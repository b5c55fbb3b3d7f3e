import {
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { type Installation, install } from "./install.ts"
import type { Outcome } from "./plan.ts"
import { type Manner, rollback } from "./rollback.ts"
import { InstallerRun } from "./run.ts"

/** Directories to install into, and suites to install. Disposal deletes them. */
export class Site implements Disposable {
  /** The parent directory, in memory if possible, because writing thousands of files to a disk takes time. */
  readonly root = mkdtempSync(join(existsSync("/dev/shm") ? "/dev/shm" : tmpdir(), "install-test-"))
  readonly directory = join(this.root, "bin")
  readonly other = join(this.root, "tools")

  constructor() {
    for (const each of [this.directory, this.other]) mkdirSync(each)
  }

  /** Installs a suite into the first directory, and a single file into the second. */
  installBoth(suite: string, tool: string): void {
    const run = new InstallerRun([this.directory, this.other])
    install({ ...this.suite(suite), run })
    install({ ...this.suite(tool, ["cni"]), directory: this.other, run })
  }

  /** Returns the different contents of the files in both directories. */
  both(): string[] {
    const contents = [this.directory, this.other].map((each) => Object.values(this.files(each)))
    return contents.map((all) => [...new Set(all.map((content) => content.replace(/,.*/, "")))].join())
  }

  /** Returns an installation of a suite whose files have this content: two files by default. */
  suite(content: string, names: readonly string[] = ["bridge", "loopback"]): Installation {
    const from = join(this.root, content.replaceAll(" ", "-"))
    mkdirSync(from, { recursive: true })
    for (const name of names) writeFileSync(join(from, name), `${content}, ${name}`, { mode: 0o755 })
    return { directory: this.directory, names, from, source: (name) => join(from, name) }
  }

  /** Writes a file, as another program would, in place of an existing one. */
  foreign(name: string, content: string): void {
    rmSync(join(this.directory, name), { force: true })
    writeFileSync(join(this.directory, name), content, { mode: 0o755 })
  }

  /** Returns the content of each file and the targets of links, without the installer's own files. */
  files(directory = this.directory): Record<string, string> {
    const names = readdirSync(directory).filter((name) => name !== ".cni-install")
    const read = (path: string) =>
      lstatSync(path).isSymbolicLink() ? `-> ${readlinkSync(path)}` : readFileSync(path, "utf8")
    return Object.fromEntries(names.sort().map((name) => [name, read(join(directory, name))]))
  }

  /** Returns the paths of all files that the installer keeps. */
  kept(): string[] {
    return readdirSync(join(this.directory, ".cni-install"), { recursive: true }).map(String).sort()
  }

  back(manner: Manner = {}): readonly Outcome[] {
    return rollback([this.directory], manner).flatMap(({ outcomes }) => outcomes)
  }

  inode(name: string): number {
    return statSync(join(this.directory, name)).ino
  }

  [Symbol.dispose](): void {
    rmSync(this.root, { recursive: true, force: true })
  }
}
