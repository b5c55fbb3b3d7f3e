import { isErrno, unlessErrno } from "../../pkg/libc/mod.ts"
import { findSysctl, isWriteOnly, readSysctl, writeSysctl } from "../../pkg/sysctl/mod.ts"
import { CniError, Code } from "../../pkg/types/mod.ts"
import { Failures } from "../../pkg/undo/mod.ts"

// Every function in this file acts on the network namespace of the calling thread: call it inside `sandbox.run`.

export interface SysctlEntry {
  /** The key as written in the configuration, with "IFNAME" not yet replaced. */
  key: string
  value: string
  /** The object of the configuration that contains the key. `args.cni.sysctl` has precedence over `sysctl`. */
  from: "sysctl" | "args.cni.sysctl"
}

/** A sysctl of the configuration that exists in the kernel. */
export interface Sysctl extends SysctlEntry {
  /** The path below /proc/sys: "net/ipv4/conf/eth0/rp_filter" */
  path: string
  /** The current value as printed by the kernel; undefined for a write-only sysctl. */
  found: string | undefined
}

/**
 * Finds sysctls in the kernel and reads their current values. If a sysctl is set both at the top and in `args.cni`,
 * uses the value in `args.cni`. Throws `CniError` if the kernel does not have a sysctl, or if two keys name the same
 * file and have different values.
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

/** Reports whether a sysctl has no value to read. Returns false for a value that only this process may not read. */
function hasNoValue(path: string, error: unknown): boolean {
  return isErrno(error, "EIO") || (isErrno(error, "EACCES") && isWriteOnly(path))
}

/**
 * Sets sysctls one after the other, like `sysctl -w`. Returns, by path, the values that the kernel prints differently
 * from what was written: "31" for "0x1f". Throws `CniError` with the key, the value and the error of the first refusal.
 */
export function setSysctls(sysctls: readonly Sysctl[]): Map<string, string> {
  const printed = new Map<string, string>()
  for (const [at, sysctl] of sysctls.entries()) {
    const { path, value, found } = sysctl
    try {
      writeSysctl(path, value, at === 0 ? found : undefined) // setting an earlier sysctl may have changed a later one
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
 * Restores the former values of sysctls, given by path, in reverse order. Skips sysctls that the kernel does not have,
 * and does not write a correct value. Restores all values twice and reports only errors of the second pass, because
 * some sysctls change others: ip_forward changes the forwarding of every interface.
 */
export function restoreSysctls(
  originals: Readonly<Record<string, { was?: string | undefined }>>,
  failures: Failures,
): void {
  const reversed = Object.entries(originals).reverse()
  for (const report of [new Failures(), failures]) {
    for (const [path, { was }] of reversed) {
      if (was === undefined) continue
      // ENOENT: the sysctl was removed with its interface.
      const restore = () => unlessErrno(() => writeSysctl(path, was), "ENOENT")
      report.attempt(`restore sysctl "${path}" to "${was}"`, restore)
    }
  }
}

/** Returns the current value of a sysctl; undefined if the kernel does not have the sysctl, or if it has no value. */
export function presentValue(path: string): string | undefined {
  try {
    return findSysctl(path)
  } catch {
    return undefined
  }
}

/**
 * Reports whether two values are equal for the kernel, which accepts any white space between numbers and prints tabs.
 */
export function sameValue(a: string | undefined, b: string | undefined): boolean {
  if (a === b) return true
  return a !== undefined && b !== undefined && oneSpaced(a) === oneSpaced(b)
}

function oneSpaced(value: string): string {
  return value.trim().replace(/\s+/g, " ")
}

/**
 * Returns the files below /proc/sys that a key of `sysctl` may name, the most likely first. As in sysctl(8), the first
 * separator of the key decides. If it is a dot, dots separate and slashes stand for dots:
 * "net.ipv4.conf.eth0/100.rp_filter". If it is a slash, dots are part of the name. The second result treats every dot
 * as a separator, as upstream does. The first "IFNAME" is replaced after that, because the interface's name may contain
 * dots.
 *
 * Throws code 7 for a key that is not below "net", because other sysctls apply to the whole machine.
 */
export function sysctlPaths(key: string, ifName: string): string[] {
  const paths: string[] = []
  for (const reading of [firstSeparatorDecides(key), key.replaceAll(".", "/")]) {
    const parts = reading.split("/").filter((part) => part !== "")
    const path = parts.join("/").replace("IFNAME", () => ifName) // a function, because a name may contain replacement patterns such as "$&"
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
