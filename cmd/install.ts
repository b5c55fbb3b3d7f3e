import {
  accessSync,
  chmodSync,
  closeSync,
  constants,
  fsyncSync,
  lstatSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  renameSync,
  rmSync,
  statSync,
  writeSync,
} from "node:fs"
import { join } from "node:path"
import { CniError, Code } from "../pkg/types/mod.ts"

/** The plugins to install, and their directory. */
export interface Installation {
  /** The executable of a name. */
  readonly source: (name: string) => string
  readonly directory: string
  /** The names that it gets; files of other names are left alone. */
  readonly names: readonly string[]
  /** Only find out what would be done. */
  readonly dryRun?: boolean
}

/** The outcome for one name. */
export interface Installed {
  readonly name: string
  readonly did: "created" | "replaced" | "unchanged"
}

const temporaryPrefix = ".cni-install-"

/**
 * Puts the executable of each name into a directory, a copy for each. Each name changes in one step, so that a runtime
 * finds the old plugin or the new one and never half of one, and plugins that run go on. Everything that can be refused is
 * refused before the first change. Throws code 5.
 */
export function install(installation: Installation): Installed[] {
  const { source, directory, names, dryRun = false } = installation
  checkDirectory(directory, names)
  const plan = names.map((name): Installed => {
    const file = join(directory, name)
    return { name, did: isSame(source(name), file) ? "unchanged" : fate(file) }
  })
  const open = plan.filter(({ did }) => did !== "unchanged")
  if (dryRun || open.length === 0) return plan

  const temporary = join(directory, `${temporaryPrefix}${process.pid}`)
  removeLeftovers(directory)
  try {
    for (const { name } of open) {
      copyExecutable(source(name), temporary)
      renameSync(temporary, join(directory, name))
    }
    sync(directory)
  } catch (cause) {
    throw new CniError(Code.Io, `Cannot install into "${directory}"`, { cause })
  } finally {
    rmSync(temporary, { force: true })
  }
  return plan
}

function checkDirectory(directory: string, names: readonly string[]): void {
  const refuse = (reason: string) => new CniError(Code.Io, `Cannot install into "${directory}": ${reason}`)
  const found = statSync(directory, { throwIfNoEntry: false })
  if (found === undefined) throw refuse(`no such directory; make it first: mkdir -p ${directory}`)
  if (!found.isDirectory()) throw refuse("not a directory")
  try {
    accessSync(directory, constants.W_OK | constants.X_OK)
  } catch {
    throw refuse("not writable for this user, or on a read-only file system; name another with --bin-dir")
  }
  for (const name of names) {
    const there = lstatSync(join(directory, name), { throwIfNoEntry: false })
    if (there?.isDirectory()) throw refuse(`"${name}" in it is a directory; a plugin belongs there`)
  }
}

function fate(file: string): Installed["did"] {
  return lstatSync(file, { throwIfNoEntry: false }) === undefined ? "created" : "replaced"
}

/** Whether a file is that executable already: a regular file of its own with the same bytes that may be executed. */
function isSame(source: string, file: string): boolean {
  const there = lstatSync(file, { throwIfNoEntry: false })
  if (!there?.isFile() || (there.mode & 0o111) !== 0o111 || there.nlink !== 1) return false
  return there.size === statSync(source).size && sameBytes(source, file)
}

function sameBytes(a: string, b: string): boolean {
  const [left, right] = [openSync(a, "r"), openSync(b, "r")]
  try {
    const [mine, theirs] = [Buffer.alloc(1 << 20), Buffer.alloc(1 << 20)]
    for (;;) {
      const size = readSync(left, mine)
      if (readSync(right, theirs) !== size || !mine.subarray(0, size).equals(theirs.subarray(0, size))) return false
      if (size === 0) return true
    }
  } finally {
    closeSync(left)
    closeSync(right)
  }
}

/** Removes the temporary files of installations that were killed. */
function removeLeftovers(directory: string): void {
  for (const name of readdirSync(directory)) {
    if (!name.startsWith(temporaryPrefix) || isRunning(Number(name.slice(temporaryPrefix.length)))) continue
    rmSync(join(directory, name), { force: true })
  }
}

function isRunning(pid: number): boolean {
  return statSync(`/proc/${pid}`, { throwIfNoEntry: false }) !== undefined
}

function sync(path: string): void {
  const fd = openSync(path, "r")
  try {
    fsyncSync(fd)
  } finally {
    closeSync(fd)
  }
}

/**
 * A complete copy on disk, executable for all, like `install -m 0755 SOURCE TARGET && sync TARGET`. The whole file goes out
 * in one write(2): the kernel then caches it in large folios, and a start that maps them takes a sixth less time than
 * with a file that was written in pages of 4 KiB.
 */
export function copyExecutable(source: string, target: string): void {
  const bytes = readFileSync(source)
  const fd = openSync(target, "w", 0o755)
  try {
    for (let done = 0; done < bytes.length; ) done += writeSync(fd, bytes, done)
    fsyncSync(fd)
  } finally {
    closeSync(fd)
  }
  chmodSync(target, 0o755) // also where the umask takes bits away
}
