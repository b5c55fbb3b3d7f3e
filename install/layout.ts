import {
  type ErrnoName,
  FileDescriptor,
  findStat,
  isDirectory,
  isErrno,
  lockWithin,
  makeDirectories,
  Open,
  removeDirectory,
  stat,
  tryLock,
  tryUnnamedFile,
} from "../pkg/libc/mod.ts"
import { CniError, Code, isCniError, messageOf } from "../pkg/types/mod.ts"

/** The maximum wait for another installer in the same directory. */
const TIMEOUT_MS = 60_000

/** The paths of the installer's own files in a directory. docs/install.md describes them. */
export class Layout {
  readonly directory: string

  constructor(directory: string) {
    this.directory = directory
  }

  file(name: string): string {
    return `${this.directory}/${name}`
  }

  get home(): string {
    return `${this.directory}/.cni-install`
  }

  get manifest(): string {
    return `${this.home}/manifest.json`
  }

  /** The path of the record of installed files' inodes, with which unchanged files need not be read. */
  get seen(): string {
    return `${this.home}/seen.json`
  }

  /** The directory of a prepared change that is not yet committed. */
  get staging(): string {
    return `${this.home}/staging`
  }

  /** The directory of a committed change, which the next installer completes. */
  get ready(): string {
    return `${this.home}/ready`
  }

  /** The directory that keeps replaced files of other programs. */
  get displaced(): string {
    return `${this.home}/displaced`
  }

  /** Returns the paths where a prepared or committed change keeps the old file of a name. */
  kept(name: string): string[] {
    return [this.staging, this.ready].flatMap((place) => [`${place}/before/${name}`, `${place}/displaced/${name}`])
  }

  /** The path of a temporary directory; see `wakeWatchers`. */
  get wake(): string {
    return `${this.directory}/.cni-wake`
  }

  /** Returns the directory that keeps the files of the previous installation. */
  before(generation: number): string {
    return `${this.home}/before-${generation}`
  }
}

/**
 * Runs `act` while no other installer runs in the directory, which is locked with flock(2). The kernel releases the
 * lock when an installer is killed. Throws error code 5 if the directory cannot be opened, and code 11 if another
 * installer holds the lock for a minute.
 */
export function asOnlyInstaller<T>({ directory }: Layout, act: () => T): T {
  using place = openDirectory(directory)
  if (lockWithin(TIMEOUT_MS, () => tryLock(place.fd))) return act()
  throw busy(directory)
}

export function busy(directory: string): CniError {
  return new CniError(Code.TryAgainLater, `Cannot lock "${directory}": another installer is running`)
}

function openDirectory(directory: string): FileDescriptor {
  try {
    return FileDescriptor.open(directory, Open.ReadOnly)
  } catch (cause) {
    throw refusalOf(directory, cause)
  }
}

/**
 * Creates and removes a directory in `directory`, so that runtimes read all files in `directory` again. containerd 1.6
 * notices removals, but not renamed or touched files. Throws `SyscallError`.
 */
export function wakeWatchers(directory: string): void {
  const { wake } = new Layout(directory)
  makeDirectories(wake) // a killed installer may have left the directory
  removeDirectory(wake)
}

/** Throws if no files can be created in the directory, for example `ENOENT`, `EROFS` or `EACCES`. */
export function requireDirectory(directory: string): void {
  const found = stat(directory)
  if (!isDirectory(found)) throw refusal(directory, "it is not a directory")
  if (found.isFrozen) throw refusal(directory, "it is immutable or append-only", `chattr -ia ${directory}`)
  tryUnnamedFile(directory)
}

/** Throws error code 5 if another user may have created the installer's directory, because its files run as root. */
export function requireOwnHome({ directory, home }: Layout): void {
  const found = findStat(home, true)
  if (found === undefined) return
  const mayBe = isDirectory(found) && (found.user === 0 || found.user === stat(directory).user)
  if (mayBe && (found.mode & 0o022) === 0) return
  throw refusal(directory, 'another user owns or can change ".cni-install" in it', `inspect ${home}, and remove it`)
}

/** Runs `act`, and converts a failed system call to an error with a remedy. */
export function orRefused<T>({ directory }: Layout, act: () => T): T {
  try {
    return act()
  } catch (cause) {
    throw refusalOf(directory, cause)
  }
}

/** Returns the error for a directory in which nothing was changed. */
export function refusal(directory: string, reason: string, details?: string): CniError {
  const more = details === undefined ? {} : { details }
  return new CniError(Code.Io, `Cannot install into "${directory}": ${reason}`, more)
}

/** Returns the error for a failed system call, with a remedy if one is known. */
function refusalOf(directory: string, cause: unknown): CniError {
  if (isCniError(cause)) return cause
  const [, reason, details] = reasons.find(([names]) => isErrno(cause, ...names)) ?? []
  const way = isErrno(cause, "ENOENT") ? ` ${directory}` : ""
  if (reason !== undefined) return refusal(directory, reason, `${messageOf(cause)}; ${details}${way}`)
  return new CniError(Code.Io, `Cannot install into "${directory}"`, { cause })
}

const reasons: readonly (readonly [names: readonly ErrnoName[], reason: string, details: string])[] = [
  [["EROFS"], "it is on a read-only file system", "choose another directory with --bin-dir"],
  [
    ["EACCES", "EPERM"],
    "this process has no permission to write to it",
    "writing to a directory of another user requires CAP_DAC_OVERRIDE, even for user 0 in a container",
  ],
  [["ENOSPC", "EDQUOT"], "the disk is full", "nothing was changed"],
  [["ENOENT"], "it does not exist", "create it first: mkdir -p"],
  [["ENOTDIR"], "it is not a directory", "choose another directory with --bin-dir"],
]
