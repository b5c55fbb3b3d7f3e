import { CniError, Code, compareVersions, type JsonObject, newestVersion } from "../types/mod.ts"

/**
 * The version that a network list asks for: the highest of `cniVersion` and `cniVersions` that this library speaks.
 * Without `cniVersions`, and when none of them will do, `cniVersion` as it is written, "" when absent. Throws code 7
 * (CNI 1.1.0, "Network configuration").
 */
export function chooseVersion(list: JsonObject): string {
  const written = list.cniVersion ?? ""
  if (typeof written !== "string") throw invalid(`invalid cniVersion type: expected a string, got ${kind(written)}`)
  if (list.cniVersions === undefined) return written

  const offered: unknown = list.cniVersions
  if (!Array.isArray(offered)) throw invalid(`invalid 'cniVersions' type: expected a list, got ${kind(offered)}`)
  let chosen: string | undefined
  for (const version of [...offered, written]) {
    if (typeof version !== "string")
      throw invalid(`invalid 'cniVersions' entry: expected a string, got ${kind(version)}`)
    if (order(version, newestVersion) > 0) continue
    if (chosen === undefined || order(version, chosen) > 0) chosen = version
  }
  return chosen ?? written
}

function order(a: string, b: string): number {
  try {
    return compareVersions(a, b)
  } catch (cause) {
    throw new CniError(Code.InvalidNetworkConfig, `Cannot choose a version: "${a}" is not a version`, { cause })
  }
}

function invalid(message: string): CniError {
  return new CniError(Code.InvalidNetworkConfig, message)
}

function kind(value: unknown): string {
  return value === null ? "null" : Array.isArray(value) ? "a list" : typeof value
}
