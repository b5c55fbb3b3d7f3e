import { isRegularFile, readlink, stat, unlessErrno } from "../libc/mod.ts"
import type { NetlinkSocket } from "../netlink/mod.ts"
import { add, dryRun } from "../nftables/mod.ts"
import { AF_INET, AF_INET6, CniError, Code, type Family } from "../types/mod.ts"

/** Where distributions put them; a plugin does not look at the caller's PATH. */
const DIRECTORIES = ["/usr/sbin", "/sbin", "/usr/bin", "/bin", "/usr/local/sbin"] as const

/** What the programs of an address family are called. */
const NAMES = { [AF_INET]: "iptables", [AF_INET6]: "ip6tables" } as const

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
 * `iptables-legacy-…` go first; where there are none, `iptables` itself is taken, unless it is known to be the newer kind.
 * Undefined when one of them is missing. Looks at files only; whether the kernel can do what they ask for shows when they
 * do it.
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
    if (restore && !(variant === "legacy" && isNewer(restore))) return { family, save, restore }
  }
  return undefined
}

/**
 * Whether what the node's administrator has made `iptables` is known to write into the older kernel tables: other programs on the
 * node, such as docker, take it. False where it is not installed.
 */
export function isLegacyDefault(family: Family, directories: readonly string[] = DIRECTORIES): boolean {
  const programs = findPrograms(family, "default", directories)
  return programs !== undefined && !isNewer(programs.restore)
}

/** Like `findPrograms`; throws `CniError` that says what is missing and where to get it. */
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

/** Returns the path of a program, like `which`, but of the places where distributions put it; undefined where it is not. */
export function findProgram(name: string, directories: readonly string[] = DIRECTORIES): string | undefined {
  return directories.map((directory) => `${directory}/${name}`).find(isFile)
}

function isFile(path: string): boolean {
  const found = unlessErrno(() => stat(path), "ENOENT", "ENOTDIR", "EACCES", "ELOOP")
  return found !== undefined && isRegularFile(found)
}

/** Whether a program is a link, by way of others perhaps, to the one that writes into nf_tables: `xtables-nft-multi`. */
function isNewer(path: string): boolean {
  let at = path
  for (let hops = 0; hops < 8 && !isNewerName(at); hops++) {
    const target = linkTarget(at)
    if (target === undefined) return false
    at = target.startsWith("/") ? target : `${at.slice(0, at.lastIndexOf("/"))}/${target}`
  }
  return isNewerName(at)
}

function isNewerName(path: string): boolean {
  return path.slice(path.lastIndexOf("/")).includes("-nft")
}

/** Undefined for a file that is no link. */
function linkTarget(path: string): string | undefined {
  try {
    return readlink(path)
  } catch {
    return undefined
  }
}

/**
 * Which kind of iptables works on this kernel: the one that the administrator has chosen where nf_tables has NAT for
 * IP, else the legacy one. `socket` is undefined on a kernel without nf_tables.
 */
export function chooseVariant(socket: NetlinkSocket | undefined): Variant {
  if (!socket) return "legacy"
  const table = { family: "ip", name: "cni_probe" } as const
  const base = { type: "nat", hook: "postrouting", priority: 100, policy: "accept" } as const
  const plan = () => [add.table(table), add.chain({ table, name: "postrouting", base })]
  return dryRun(socket, table, plan) ? "default" : "legacy"
}
