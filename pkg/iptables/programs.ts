import { isRegularFile, readlink, stat, unlessErrno } from "../libc/mod.ts"
import type { NetlinkSocket } from "../netlink/mod.ts"
import { add, dryRun, NF_IP_PRI_NAT_SRC } from "../nftables/mod.ts"
import { AF_INET, AF_INET6, CniError, Code, type Family } from "../types/mod.ts"

/** The directories in which distributions install the programs. A plugin ignores the PATH of its caller. */
const DIRECTORIES = ["/usr/sbin", "/sbin", "/usr/bin", "/bin", "/usr/local/sbin"] as const

const NAMES = { [AF_INET]: "iptables", [AF_INET6]: "ip6tables" } as const

/** "default" is the program that the administrator chose as `iptables`; "legacy" is that for legacy tables. */
export type Variant = "default" | "legacy"

/** The absolute paths of the programs that read and write the rules of one address family. */
export interface Programs {
  family: Family
  /** The program that prints rules. */
  save: string
  /** The program that changes rules, in one transaction per table. */
  restore: string
}

/**
 * Finds `iptables-save` and `iptables-restore`, or `ip6tables-save` and `ip6tables-restore`. For "legacy",
 * `iptables-legacy-…` is preferred, and then `iptables` unless it is known to be the nft variant. Returns undefined if
 * one of the two is missing. It looks only at files, so the kernel may not support the programs.
 */
export function findPrograms(
  family: Family,
  variant: Variant = "default",
  directories: readonly string[] = DIRECTORIES,
): Programs | undefined {
  const name = NAMES[family]
  for (const prefix of variant === "legacy" ? [`${name}-legacy`, name] : [name]) {
    const save = findProgram(`${prefix}-save`, directories)
    const restore = save && findProgram(`${prefix}-restore`, directories)
    if (restore && !(variant === "legacy" && isNftVariant(restore))) return { family, save, restore }
  }
  return undefined
}

/**
 * Reports whether the administrator's `iptables` is known to use legacy tables. If so, other programs on the node, such
 * as docker, use them too. Returns false if `iptables` is not installed.
 */
export function isLegacyDefault(family: Family, directories: readonly string[] = DIRECTORIES): boolean {
  const programs = findPrograms(family, "default", directories)
  return programs !== undefined && !isNftVariant(programs.restore)
}

/** Like `findPrograms`, but throws `CniError` if a program is missing. The error says where to get it. */
export function requirePrograms(
  family: Family,
  variant: Variant = "default",
  directories?: readonly string[],
): Programs {
  const found = findPrograms(family, variant, directories)
  if (found) return found
  const name = variant === "legacy" ? `${NAMES[family]}-legacy` : NAMES[family]
  const places = (directories ?? DIRECTORIES).join(", ")
  throw new CniError(Code.Internal, `Cannot find the programs "${name}-save" and "${name}-restore" in ${places}`, {
    details:
      'install them (Debian\'s package is called "iptables"), or use the nftables backend, which needs no program',
  })
}

/** Returns the path of a program in the distributions' directories, like `which`; undefined if it does not exist. */
export function findProgram(name: string, directories: readonly string[] = DIRECTORIES): string | undefined {
  return directories.map((directory) => `${directory}/${name}`).find(isFile)
}

function isFile(path: string): boolean {
  const found = unlessErrno(() => stat(path), "ENOENT", "ENOTDIR", "EACCES", "ELOOP")
  return found !== undefined && isRegularFile(found)
}

/** The maximum number of symbolic links that are followed. The kernel follows 40. */
const LINKS_MAX = 8

/** Reports whether a path leads, by symbolic links, to the program for nf_tables: `xtables-nft-multi`. */
function isNftVariant(path: string): boolean {
  let at = path
  for (let links = 0; links < LINKS_MAX && !isNftName(at); links++) {
    const target = linkTarget(at)
    if (target === undefined) return false
    at = target.startsWith("/") ? target : `${at.slice(0, at.lastIndexOf("/"))}/${target}`
  }
  return isNftName(at)
}

function isNftName(path: string): boolean {
  return path.slice(path.lastIndexOf("/")).includes("-nft")
}

/** Returns the target of a symbolic link; undefined for other files. */
function linkTarget(path: string): string | undefined {
  try {
    return readlink(path)
  } catch {
    return undefined
  }
}

/**
 * Returns the variant of iptables that works on this kernel: the administrator's choice if nf_tables has NAT for IP,
 * otherwise legacy. `socket` is undefined on a kernel without nf_tables.
 */
export function chooseVariant(socket: NetlinkSocket | undefined): Variant {
  if (!socket) return "legacy"
  const table = { family: "ip", name: "cni_probe" } as const
  const base = { type: "nat", hook: "postrouting", priority: NF_IP_PRI_NAT_SRC, policy: "accept" } as const
  const plan = () => [add.table(table), add.chain({ table, name: "postrouting", base })]
  return dryRun(socket, table, plan) ? "default" : "legacy"
}
