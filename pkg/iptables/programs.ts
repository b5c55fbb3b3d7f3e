import { isErrno, isRegularFile, stat } from "../libc/mod.ts"
import { CniError, Code } from "../types/mod.ts"
import type { Family } from "./rule.ts"

/** Where distributions put them; a plugin does not look at the caller's PATH. */
const DIRECTORIES = ["/usr/sbin", "/sbin", "/usr/bin", "/bin", "/usr/local/sbin"] as const

/** Which of the two kinds: what the node's administrator has made `iptables`, or the one for the older kernel tables. */
export type Variant = "default" | "legacy"

/** The programs that read and write the rules of one address family; absolute paths. */
export interface Programs {
  family: Family
  /** Prints rules. */
  save: string
  /** Changes them, all at once. */
  restore: string
}

/**
 * Finds `iptables-save` and `iptables-restore`, or the `ip6tables` ones. With "legacy" those that are called
 * `iptables-legacy-…` go first: where there are none, `iptables` itself may be it. Undefined when one of them is missing.
 * Looks at files only; whether the kernel can do what they ask for shows when they do it.
 */
export function findPrograms(
  family: Family,
  variant: Variant = "default",
  directories: readonly string[] = DIRECTORIES,
): Programs | undefined {
  const name = family === "ip" ? "iptables" : "ip6tables"
  for (const prefix of variant === "legacy" ? [`${name}-legacy`, name] : [name]) {
    const save = findFile(`${prefix}-save`, directories)
    const restore = save && findFile(`${prefix}-restore`, directories)
    if (restore) return { family, save, restore }
  }
  return undefined
}

/** Like `findPrograms`; throws `CniError` that says what is missing and where to get it. */
export function requirePrograms(
  family: Family,
  variant: Variant = "default",
  directories?: readonly string[],
): Programs {
  const found = findPrograms(family, variant, directories)
  if (found) return found
  const name = family === "ip" ? "iptables" : "ip6tables"
  const places = (directories ?? DIRECTORIES).join(", ")
  throw new CniError(Code.Internal, `Cannot find the programs "${name}-save" and "${name}-restore" in ${places}`, {
    details:
      'install them (Debian\'s package is called "iptables"), or use the nftables backend, which needs no program',
  })
}

function findFile(name: string, directories: readonly string[]): string | undefined {
  return directories.map((directory) => `${directory}/${name}`).find(isFile)
}

function isFile(path: string): boolean {
  try {
    return isRegularFile(stat(path))
  } catch (error) {
    if (isErrno(error, "ENOENT", "ENOTDIR", "EACCES", "ELOOP")) return false
    throw error
  }
}
