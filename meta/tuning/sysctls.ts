import { isErrno, unlessErrno } from "../../pkg/libc/mod.ts"
import { findSysctl, isWriteOnly, readSysctl, writeSysctl } from "../../pkg/sysctl/mod.ts"
import { CniError, Code } from "../../pkg/types/mod.ts"
import { Failures } from "../../pkg/undo/mod.ts"

// Everything here concerns the thread's network namespace: call it inside `sandbox.run`.

/** One sysctl of the configuration. */
export interface SysctlEntry {
  /** As written, including "IFNAME". */
  key: string
  value: string
  /** A value in `args.cni` has precedence over one at the top. */
  from: "sysctl" | "args.cni.sysctl"
}

/** A sysctl of the configuration that the kernel has. */
export interface Sysctl extends SysctlEntry {
  /** Below /proc/sys: "net/ipv4/conf/eth0/rp_filter" */
  path: string
  /** The current value as printed by the kernel; undefined for write-only ones. */
  found: string | undefined
}

/**
 * Finds sysctls in the kernel and reads them. If a sysctl is both at the top and in `args.cni`, the latter's value
 * counts. Throws `CniError` for a sysctl that the kernel does not have, and for two keys that mean one file with
 * different values.
 */
export function findSysctls(entries: readonly SysctlEntry[], ifName: string): Sysctl[] {
  const byPath = new Map<string, Sysctl>()
  for (const entry of entries) {
    const sysctl = locateSysctl(entry, ifName)
    const other = byPath.get(sysctl.path)
    if (other?.from === sysctl.from && other.value !== sysctl.value) {
      const keys = `${JSON.stringify(other.key)} and ${JSON.stringify(sysctl.key)}`
      throw new CniError(
        Code.InvalidNetworkConfig,
        `Cannot use "${entry.from}": duplicated sysctl keys are not allowed: ${keys} are one setting`,
      )
    }
    byPath.set(sysctl.path, sysctl)
  }
  return [...byPath.values()]
}

function locateSysctl(entry: SysctlEntry, ifName: string): Sysctl {
  let reason: unknown
  for (const path of sysctlPaths(entry.key, ifName)) {
    try {
      return { ...entry, path, found: readSysctl(path) }
    } catch (error) {
      if (hasNoValue(path, error)) return { ...entry, path, found: undefined }
      reason ??= error
      if (!isErrno(error, "ENOENT", "ENOTDIR", "EISDIR")) break
    }
  }
  throw cannot(`find sysctl ${JSON.stringify(entry.key)}`, reason)
}

/** Whether there is no value to read; a value that may not be read could not be restored. */
function hasNoValue(path: string, error: unknown): boolean {
  return isErrno(error, "EIO") || (isErrno(error, "EACCES") && isWriteOnly(path))
}

/**
 * Sets sysctls one after the other, like `sysctl -w`. Returns, by path, the kernel's texts that differ from the written
 * ones: "31" for "0x1f". Throws `CniError` with key, value and error of the first refusal.
 */
export function setSysctls(sysctls: readonly Sysctl[]): Map<string, string> {
  const printed = new Map<string, string>()
  for (const [at, sysctl] of sysctls.entries()) {
    const { path, value, found } = sysctl
    try {
      writeSysctl(path, value, at === 0 ? found : undefined) // an earlier one may have changed a later one
    } catch (cause) {
      throw cannot(`set sysctl ${JSON.stringify(sysctl.key)} to ${JSON.stringify(value)}`, cause)
    }
    const is = presentValue(path)
    if (is !== undefined && !sameValue(is, value)) printed.set(path, is)
  }
  return printed
}

function cannot(what: string, cause: unknown): CniError {
  const reason = cause instanceof Error && "errno" in cause ? cause.errno : "failed"
  return new CniError(Code.Internal, `Cannot ${what} in the container: ${reason}`, { cause })
}

/**
 * Gives sysctls, by path, their former values, the last one first. Sysctls that the kernel does not have are skipped.
 * It does so twice, and reports errors of the second pass: some sysctls set others, as ip_forward sets the forwarding
 * of every interface. A value that is already right is not written.
 */
export function restoreSysctls(
  originals: Readonly<Record<string, { was?: string | undefined }>>,
  failures: Failures,
): void {
  const reversed = Object.entries(originals).reverse()
  for (const report of [new Failures(), failures]) {
    for (const [path, { was }] of reversed) {
      if (was === undefined) continue
      // ENOENT: it was removed with its interface.
      const restore = () => unlessErrno(() => writeSysctl(path, was), "ENOENT")
      report.attempt(`restore sysctl "${path}" to "${was}"`, restore)
    }
  }
}

/** Returns the current value of a sysctl; undefined if the kernel does not have it, or it has no value. */
export function presentValue(path: string): string | undefined {
  try {
    return findSysctl(path)
  } catch {
    return undefined
  }
}

/** Whether two values are the same to the kernel: it accepts any white space between numbers, and prints tabs. */
export function sameValue(a: string | undefined, b: string | undefined): boolean {
  if (a === b) return true
  return a !== undefined && b !== undefined && oneSpaced(a) === oneSpaced(b)
}

function oneSpaced(value: string): string {
  return value.trim().replace(/\s+/g, " ")
}

/**
 * Returns the files below /proc/sys that a key of `sysctl` may mean, the likeliest first, with the first "IFNAME"
 * replaced by the interface's name. As in sysctl(8) the first separator decides: after a dot, dots separate and slashes
 * stand for dots ("net.ipv4.conf.eth0/100.rp_filter"); after a slash, dots belong to the name. Upstream takes every dot
 * for a separator, so that reading comes second. "IFNAME" is replaced last: the name may contain dots.
 *
 * Throws code 7 for a key that is not below "net": other settings belong to the whole machine.
 */
export function sysctlPaths(key: string, ifName: string): string[] {
  const paths: string[] = []
  for (const reading of [firstSeparatorDecides(key), key.replaceAll(".", "/")]) {
    const parts = reading.split("/").filter((part) => part !== "")
    const path = parts.join("/").replace("IFNAME", () => ifName) // no replacement patterns: "$&" may be a name
    const isInside = parts[0] === "net" && parts.length > 1 && !parts.includes(".") && !parts.includes("..")
    if (isInside && !paths.includes(path)) paths.push(path)
  }
  if (paths.length > 0) return paths
  throw new CniError(Code.InvalidNetworkConfig, `Cannot use "sysctl": invalid net sysctl key ${JSON.stringify(key)}`, {
    details: "expected a setting of the container's network, such as net.ipv4.conf.IFNAME.arp_filter",
  })
}

function firstSeparatorDecides(key: string): string {
  const slash = key.indexOf("/")
  const dot = key.indexOf(".")
  if (dot === -1 || (slash !== -1 && slash < dot)) return key
  return key.replace(/[./]/g, (separator) => (separator === "." ? "/" : "."))
}
