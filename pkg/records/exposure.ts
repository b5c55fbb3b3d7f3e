import { findStat, isDirectory, isSymlink, readlink, type Stat, stat, unlessErrno } from "../libc/mod.ts"
import { CniError, Code } from "../types/mod.ts"

/** Bits of a file's mode, <linux/stat.h>. */
const STICKY = 0o1000
const GROUP_MAY_WRITE = 0o020
const OTHERS_MAY_WRITE = 0o002

/** The number of links that the kernel follows in a path, path_resolution(7). After that it returns ELOOP. */
const LINKS_MAX = 40

/** The errors of an unusable path. They are ignored here, because the next call that uses the path reports them. */
const nothingThere = ["ENOTDIR", "ENAMETOOLONG", "EACCES", "ELOOP"] as const

/**
 * Throws `CniError` if users other than the administrator could change the content of a directory, or of its
 * subdirectory `inside`. Call it before trusting or writing anything there, and again after creating the directory.
 * After that no other user can change it.
 */
export function requireOwn(directory: string, inside?: string): void {
  const exposure = findExposure(directory, inside)
  if (exposure === undefined) return
  throw new CniError(Code.Io, `Cannot trust "${directory}": ${exposure}`, {
    details:
      "run chown root and chmod go-w on it, or mount the tmpfs with mode=0755; files of other users in it are kept: inspect them, or remove the directory",
  })
}

/**
 * Returns the reason why users other than the administrator could change or replace the content of a directory, or
 * `undefined` if they cannot. Checks all directories and links of its path. Their owner must be root, this process's
 * user, or the owner of "/" (root, if a user namespace does not map it). Other users must not be able to write to them,
 * except group root. A directory on the path may be writable for all if it is sticky, like /tmp. A missing directory is
 * no reason.
 */
export function findExposure(directory: string, inside?: string): string | undefined {
  return unlessErrno(() => new Walk().along(directory, inside), ...nothingThere)
}

class Walk {
  readonly #root = stat("/")
  /** The user of this process. Read only when needed, because the owner is usually root. */
  #self: number | undefined

  along(directory: string, inside: string | undefined): string | undefined {
    const isAbsolute = directory.startsWith("/")
    const rest = partsOf(directory)
    let at = isAbsolute ? "" : "."
    let found: Stat | undefined = isAbsolute ? this.#root : stat(".")
    for (let links = 0; links <= LINKS_MAX; ) {
      const isThere = isDirectory(found)
      const exposure = isThere ? this.#exposureOf(at || "/", found, rest.length === 0) : undefined
      if (exposure !== undefined || !isThere) return exposure
      const part = rest.shift()
      if (part === undefined) return inside === undefined ? undefined : this.#within(`${at}/${inside}`)
      const next = `${at}/${part}`
      found = findStat(next, true)
      if (!found) return undefined
      if (isSymlink(found)) {
        if (!this.#isTrusted(found.user)) return `the link "${next}" belongs to user ${found.user}`
        const target = readlink(next)
        rest.unshift(...partsOf(target))
        if (target.startsWith("/")) at = ""
        found = stat(at || "/")
        links++
      } else at = next
    }
    return undefined
  }

  /**
   * Returns the reason why other users could change a subdirectory. Only the administrator can change its parent now,
   * but another user may have created the subdirectory earlier, or become its owner.
   */
  #within(path: string): string | undefined {
    const found = findStat(path, true)
    if (!found) return undefined
    if (isSymlink(found)) return `"${path}" is a link`
    return isDirectory(found) ? this.#exposureOf(path, found, true) : undefined
  }

  #exposureOf(path: string, { user, group, mode }: Stat, isLast: boolean): string | undefined {
    if (!this.#isTrusted(user)) return `"${path}" belongs to user ${user}`
    if ((mode & STICKY) !== 0 && !isLast) return undefined // only owners can remove entries
    if ((mode & OTHERS_MAY_WRITE) !== 0) return `all users may write to "${path}"`
    const isShared = (mode & GROUP_MAY_WRITE) !== 0 && group !== 0 && group !== this.#root.group
    return isShared ? `group ${group} may write to "${path}"` : undefined
  }

  #isTrusted(user: number): boolean {
    return user === 0 || user === this.#root.user || user === this.#ownUser()
  }

  #ownUser(): number | undefined {
    this.#self ??= findStat("/proc/self")?.user ?? -1
    return this.#self
  }
}

function partsOf(path: string): string[] {
  return path.split("/").filter((part) => part !== "" && part !== ".")
}
