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
import type { Installation } from "./install.ts"

/** A directory to install into, and suites to install; it goes with its scope. */
export class Site implements Disposable {
  /** In memory where that can be: putting each of thousands of files on a disk takes its time. */
  readonly root = mkdtempSync(join(existsSync("/dev/shm") ? "/dev/shm" : tmpdir(), "install-test-"))
  readonly directory = join(this.root, "bin")

  constructor() {
    mkdirSync(this.directory)
  }

  /** What installs a suite whose files have this content, for two names or those given. */
  suite(content: string, names: readonly string[] = ["bridge", "loopback"]): Installation {
    const from = join(this.root, content.replaceAll(" ", "-"))
    mkdirSync(from, { recursive: true })
    for (const name of names) writeFileSync(join(from, name), `${content}, ${name}`, { mode: 0o755 })
    return { directory: this.directory, names, from, source: (name) => join(from, name) }
  }

  /** Has another program write a file, in place of what has the name. */
  foreign(name: string, content: string): void {
    rmSync(join(this.directory, name), { force: true })
    writeFileSync(join(this.directory, name), content, { mode: 0o755 })
  }

  /** The content of each file, links by their targets; what the installer keeps is left out. */
  files(): Record<string, string> {
    const names = readdirSync(this.directory).filter((name) => name !== ".cni-install")
    const read = (path: string) =>
      lstatSync(path).isSymbolicLink() ? `-> ${readlinkSync(path)}` : readFileSync(path, "utf8")
    return Object.fromEntries(names.sort().map((name) => [name, read(join(this.directory, name))]))
  }

  /** All paths that the installer keeps. */
  kept(): string[] {
    return readdirSync(join(this.directory, ".cni-install"), { recursive: true }).map(String).sort()
  }

  inode(name: string): number {
    return statSync(join(this.directory, name)).ino
  }

  [Symbol.dispose](): void {
    rmSync(this.root, { recursive: true, force: true })
  }
}
