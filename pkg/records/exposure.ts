import { findStat, isDirectory, isSymlink, readlink, type Stat, stat, unlessErrno } from "../libc/mod.ts"
import { CniError, Code } from "../types/mod.ts"

/** Bits of a mode, <linux/stat.h>. */
const STICKY = 0o1000
const GROUP_MAY_WRITE = 0o020
const OTHERS_MAY_WRITE = 0o002

/** As many links as the kernel follows, path_resolution(7); beyond that it says ELOOP itself. */
const LINKS_MAX = 40

/** Errors by which the path cannot be used at all: the next call that uses it gets them. */
const nothingThere = ["ENOTDIR", "ENAMETOOLONG", "EACCES", "ELOOP"] as const

/**
 * Throws `CniError` when others than the administrator could change what is in a directory, or in its subdirectory `inside`. To
 * be called before anything there is believed or written, and again once the directory has been made: then no other user can change it.
 */
export function requireOwn(directory: string, inside?: string): void {
  const exposure = findExposure(directory, inside)
  if (exposure === undefined) return
  throw new CniError(Code.Io, `Cannot trust "${directory}": ${exposure}`, {
    details:
      "chown it to root and chmod go-w (a tmpfs: mount it with mode=0755); what others have put into it by then stays: look through it, or remove it",
  })
}

/**
 * Returns the reason why users other than the administrator could change or replace the content of a directory;
 * `undefined` when they cannot. All directories and links of its path count. Others are: an owner other than root, the
 * user of this process, or the owner of "/" (root, where a user namespace does not map it); and users that may write to
 * it, except for group root. A directory on the way may be for everybody when it is sticky, like /tmp. What is not
 * there yet says nothing.
 */
export function findExposure(directory: string, inside?: string): string | undefined {
  return unlessErrno(() => new Walk().along(directory, inside), ...nothingThere)
}

class Walk {
  readonly #root = stat("/")
  /** Asked for where it matters: it is root mostly. */
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

  /** The owner of a directory whose parent only the administrator can change by now: it was made before that, or given away. */
  #within(path: string): string | undefined {
    const found = findStat(path, true)
    if (!found) return undefined
    if (isSymlink(found)) return `"${path}" is a link`
    return isDirectory(found) ? this.#exposureOf(path, found, true) : undefined
  }

  #exposureOf(path: string, { user, group, mode }: Stat, isLast: boolean): string | undefined {
    if (!this.#isTrusted(user)) return `"${path}" belongs to user ${user}`
    if ((mode & STICKY) !== 0 && !isLast) return undefined // entries are taken away by their owners only
    if ((mode & OTHERS_MAY_WRITE) !== 0) return `everybody may write to "${path}"`
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
