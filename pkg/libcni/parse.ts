import { encodeUtf8 } from "../engine/mod.ts"
import {
  CniError,
  Code,
  compareVersions,
  isJsonObject,
  type JsonObject,
  member,
  newestVersion,
  parseJsonObject,
  stringifyJson,
  validateNetworkName,
} from "../types/mod.ts"
import type { Network, NetworkPlugin } from "./network.ts"
import { reservedKeys } from "./request.ts"
import type { NetworkListConfig, PluginConfig, SinglePluginConfig } from "./typed.ts"

/** A network list without the further plugins of its directory. */
export interface NetworkList extends Network {
  readonly loadOnlyInlinedPlugins: boolean
  /** Whether the list has the key `plugins`. */
  readonly inlined: boolean
}

/**
 * Parses the content of a `.conflist`: its text, or the object in it. Throws code 6 if it is not JSON. Throws code 7 if
 * it has no valid `name`, or if `plugins` is empty or not a list of objects with a `type`.
 */
export function parseNetworkList(content: Uint8Array | string | NetworkListConfig): NetworkList {
  const bytes = bytesOf(content)
  const list = parseJsonObject(bytes, "network configuration list")
  if (typeof list.name !== "string" || list.name === "") throw invalid("Cannot use network list: missing 'name'")
  validateNetworkName(list.name)
  const plugins = list.plugins === undefined ? [] : parsePlugins(list.plugins)
  return {
    name: list.name,
    cniVersion: chooseVersion(list),
    disableCheck: flag(list, "disableCheck"),
    disableGC: flag(list, "disableGC"),
    loadOnlyInlinedPlugins: flag(list, "loadOnlyInlinedPlugins"),
    inlined: list.plugins !== undefined,
    plugins,
    bytes,
    warnings: plugins.flatMap(reservedKeyWarnings),
  }
}

/** Parses the content of a `.conf` or `.json`: one plugin with a `name`. Returns a network list with this plugin. */
export function parseSinglePlugin(content: Uint8Array | string | SinglePluginConfig): NetworkList {
  const { type, raw } = parsePlugin(content)
  const name = member(raw, "name")
  if (typeof name !== "string" || name === "") throw invalid(`Cannot use plugin "${type}" as a network: missing 'name'`)
  const cniVersion = member(raw, "cniVersion")
  const list = { name, ...(cniVersion === undefined ? {} : { cniVersion }), plugins: [raw] }
  return parseNetworkList(encodeUtf8(stringifyJson(list)))
}

/** Parses the content of a file in the network's directory: one plugin. */
export function parsePlugin(content: Uint8Array | string | PluginConfig): NetworkPlugin {
  return checkPlugin(parseJsonObject(bytesOf(content), "plugin configuration"))
}

function bytesOf(content: Uint8Array | string | object): Uint8Array {
  if (content instanceof Uint8Array) return content
  try {
    if (typeof content === "string") return encodeUtf8(content)
    if (typeof content === "object" && content !== null) return encodeUtf8(stringifyJson(content))
  } catch (cause) {
    throw new CniError(Code.Decoding, "Cannot read a configuration: it is not JSON", { cause })
  }
  throw new CniError(Code.Decoding, `Cannot read a configuration: expected its text or an object, got ${kind(content)}`)
}

function parsePlugins(value: unknown): NetworkPlugin[] {
  if (!Array.isArray(value)) throw invalid(`invalid 'plugins' type ${typeof value}: expected a list`)
  if (value.length === 0) throw invalid("no plugins in list")
  return value.map((plugin: unknown, index) => {
    if (!isJsonObject(plugin)) throw invalid(`Cannot use plugin ${index}: expected an object`)
    return checkPlugin(plugin)
  })
}

function checkPlugin(raw: JsonObject): NetworkPlugin {
  const type = member(raw, "type")
  if (type === undefined || type === "") {
    const isList = Array.isArray(member(raw, "plugins"))
    throw invalid(
      "error parsing configuration: missing 'type'",
      isList ? "it has 'plugins': the name of a file with a list must end with .conflist" : undefined,
    )
  }
  if (typeof type !== "string") throw invalid("Cannot use plugin: 'type' must be a string")
  const expect = (key: string, wanted: string, holds: boolean) => {
    if (!holds) throw invalid(`Cannot use plugin "${type}": '${key}' must be ${wanted}`)
  }
  const capabilities = member(raw, "capabilities") ?? {}
  const ipam = member(raw, "ipam") ?? {}
  expect(
    "capabilities",
    "an object of booleans",
    isJsonObject(capabilities) && Object.values(capabilities).every(isBoolean),
  )
  expect("ipam", "an object", isJsonObject(ipam))
  expect("ipam.type", "a string", !isJsonObject(ipam) || typeof (member(ipam, "type") ?? "") === "string")
  for (const key of ["dns", "prevResult"]) expect(key, "an object", isJsonObject(member(raw, key) ?? {}))
  return { type, raw }
}

/** Returns warnings about reserved keys, which do not belong in a file, but are passed on, as by upstream. */
function reservedKeyWarnings(plugin: NetworkPlugin): string[] {
  return Object.keys(plugin.raw)
    .filter((key) => reservedKeys.some((reserved) => reserved === key) || key.startsWith("cni.dev/"))
    .map((key) => `Plugin "${plugin.type}": key "${key}" belongs to the runtime and should not be in a file`)
}

/** Returns the value of a boolean key. Accepts the texts "true" and "false" in any letter case, as in CNI 0.4.0. */
function flag(list: JsonObject, key: string): boolean {
  const value = list[key] ?? false
  if (typeof value === "boolean") return value
  if (typeof value !== "string") throw invalid(`invalid type ${typeof value} for ${key}`)
  const text = value.toLowerCase()
  if (text !== "true" && text !== "false") throw invalid(`invalid value "${value}" for ${key}`)
  return text === "true"
}

function isBoolean(value: unknown): boolean {
  return typeof value === "boolean"
}

/**
 * Returns the version of a network list: the highest of `cniVersion` and `cniVersions` that this library supports. If
 * none is supported, or without `cniVersions`, returns `cniVersion` as written, or "" if absent. Throws code 7 (CNI
 * 1.1.0, "Network configuration").
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

function invalid(message: string, details?: string): CniError {
  return new CniError(Code.InvalidNetworkConfig, message, details === undefined ? {} : { details })
}

function kind(value: unknown): string {
  return value === null ? "null" : Array.isArray(value) ? "a list" : typeof value
}
