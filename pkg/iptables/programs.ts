import { isRegularFile, readlink, stat, unlessErrno } from "../libc/mod.ts"
import type { NetlinkSocket } from "../netlink/mod.ts"
import { add, dryRun, NF_IP_PRI_NAT_SRC } from "../nftables/mod.ts"
import { AF_INET, AF_INET6, CniError, Code, type Family } from "../types/mod.ts"

/** The directories that distributions use; a plugin ignores the caller's PATH. */
const DIRECTORIES = ["/usr/sbin", "/sbin", "/usr/bin", "/bin", "/usr/local/sbin"] as const

/** The names of the programs by address family. */
const NAMES = { [AF_INET]: "iptables", [AF_INET6]: "ip6tables" } as const

/** The program that the administrator has chosen as `iptables`, or the one for legacy tables. */
export type Variant = "default" | "legacy"

/** The programs that read and write the rules of one address family; absolute paths. */
export interface Programs {
  family: Family
  /** Prints rules. */
  save: string
  /** Changes rules in one transaction per table. */
  restore: string
}

/**
 * Finds `iptables-save` and `iptables-restore`, or the `ip6tables` ones. With "legacy", `iptables-legacy-…` comes
 * first; without those, `iptables` is used unless it is known to be the nft variant. Undefined if one of them is
 * missing. Only looks at files; it is unknown whether the kernel supports their requests.
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
 * Whether the administrator's `iptables` is known to use legacy tables: other programs on the node, such as docker, use
 * it. False if it is not installed.
 */
export function isLegacyDefault(family: Family, directories: readonly string[] = DIRECTORIES): boolean {
  const programs = findPrograms(family, "default", directories)
  return programs !== undefined && !isNftVariant(programs.restore)
}

/** Like `findPrograms`; throws `CniError` with what is missing and where to get it. */
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

/**
 * Returns the path of a program, like `which`, from the directories that distributions use; undefined if it does not
 * exist.
 */
export function findProgram(name: string, directories: readonly string[] = DIRECTORIES): string | undefined {
  return directories.map((directory) => `${directory}/${name}`).find(isFile)
}

function isFile(path: string): boolean {
  const found = unlessErrno(() => stat(path), "ENOENT", "ENOTDIR", "EACCES", "ELOOP")
  return found !== undefined && isRegularFile(found)
}

/** The maximum of symbolic links that are followed; the kernel follows 40. */
const LINKS_MAX = 8

/** Whether a program is a link, directly or not, to the one for nf_tables: `xtables-nft-multi`. */
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

/** Returns the target of a link; undefined for other files. */
function linkTarget(path: string): string | undefined {
  try {
    return readlink(path)
  } catch {
    return undefined
  }
}

/**
 * Returns the variant of iptables that works on this kernel: the administrator's choice if nf_tables has NAT for IP,
 * else legacy. `socket` is undefined on a kernel without nf_tables.
 */
export function chooseVariant(socket: NetlinkSocket | undefined): Variant {
  if (!socket) return "legacy"
  const table = { family: "ip", name: "cni_probe" } as const
  const base = { type: "nat", hook: "postrouting", priority: NF_IP_PRI_NAT_SRC, policy: "accept" } as const
  const plan = () => [add.table(table), add.chain({ table, name: "postrouting", base })]
  return dryRun(socket, table, plan) ? "default" : "legacy"
}
