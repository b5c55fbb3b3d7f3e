import type { JsonObject, Owner } from "../../pkg/types/mod.ts"
import { asPrinted, decodeBackup } from "./backup.ts"
import { BackupFile } from "./backup-file.ts"
import { readSysctlKeys } from "./config.ts"
import { sameValue, sysctlPaths } from "./sysctls.ts"

/** A sysctl whose value differs from the value that ADD set. */
export interface ChangedSysctl {
  /** The path below /proc/sys: "net/ipv4/conf/eth0/rp_filter" */
  readonly path: string
  readonly expected: string
  readonly found: string
}

/** Returns the files below /proc/sys that a configuration may name, for `changedSysctls`. Never throws. */
export function tunedPaths(raw: JsonObject, { ifName }: Pick<Owner, "ifName">): string[] {
  return readSysctlKeys(raw).sysctls.flatMap(({ key }) => pathsOf(key, ifName))
}

/**
 * Returns the sysctls of an attachment whose values differ from those that ADD set. `values` are the container's
 * current values by path. If the kernel prints a value differently from what ADD wrote, compares with the printed value
 * in the attachment's backup, as CHECK does. Never throws.
 */
export function changedSysctls(raw: JsonObject, owner: Owner, values: ReadonlyMap<string, string>): ChangedSysctl[] {
  const { sysctls, dataDir } = readSysctlKeys(raw)
  const wanted = new Map(
    sysctls.flatMap(({ key, value }) => {
      const path = pathsOf(key, owner.ifName).find((each) => values.has(each))
      return path === undefined ? [] : [[path, value] as const]
    }),
  )
  const differing = [...wanted].filter(([path, value]) => !sameValue(values.get(path), value))
  const backup = differing.length === 0 ? {} : decodeBackup(readBackup(dataDir, owner))
  return differing.flatMap(([path, value]) => {
    const expected = asPrinted(backup, path, value)
    const found = values.get(path) ?? ""
    return sameValue(found, expected) || isSameNumber(found, expected) ? [] : [{ path, expected, found }]
  })
}

function pathsOf(key: string, ifName: string): string[] {
  try {
    return sysctlPaths(key, ifName)
  } catch {
    return []
  }
}

function readBackup(directory: string, owner: Owner): Uint8Array | undefined {
  try {
    return new BackupFile(directory, owner).read()
  } catch {
    return undefined // without a backup, values are compared as numbers
  }
}

/** Reports whether two values are the same number. Only our ADD records that the kernel prints "31" for "0x1f". */
function isSameNumber(found: string, expected: string): boolean {
  return expected.trim() !== "" && Number(found) === Number(expected)
}
