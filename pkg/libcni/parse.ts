import {
  CniError,
  Code,
  isJsonObject,
  type JsonObject,
  member,
  parseJsonObject,
  stringifyJson,
  validateNetworkName,
} from "../types/mod.ts"
import type { Network, NetworkPlugin } from "./network.ts"
import { reservedKeys } from "./request.ts"
import { chooseVersion } from "./version-choice.ts"

/** A network list as its own bytes say; the directory of further plugins is not looked at. */
export interface NetworkList extends Network {
  readonly loadOnlyInlinedPlugins: boolean
  /** Whether the list has `plugins` at all. */
  readonly inlined: boolean
}

/**
 * Reads the content of a `.conflist`. Throws code 6 for what is not JSON, and code 7 for a list that cannot be used: no
 * valid `name`, `plugins` that is not a list of objects with a `type`, or empty.
 */
export function parseNetworkList(bytes: Uint8Array): NetworkList {
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

/** Reads the content of a `.conf` or `.json`, one plugin with a `name`, as the network list that holds only it. */
export function parseSinglePlugin(bytes: Uint8Array): NetworkList {
  const { type, raw } = parsePlugin(bytes)
  const name = member(raw, "name")
  if (typeof name !== "string" || name === "") throw invalid(`Cannot use plugin "${type}" as a network: missing 'name'`)
  const cniVersion = member(raw, "cniVersion")
  const list = { name, ...(cniVersion === undefined ? {} : { cniVersion }), plugins: [raw] }
  return parseNetworkList(new TextEncoder().encode(stringifyJson(list)))
}

/** Reads the content of one plugin object: a file of its own in the network's directory. */
export function parsePlugin(bytes: Uint8Array): NetworkPlugin {
  return checkPlugin(parseJsonObject(bytes, "plugin configuration"))
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
  if (type === undefined || type === "") throw invalid("error parsing configuration: missing 'type'")
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

/** Reserved keys pass through, as upstream passes them, but nobody should write them. */
function reservedKeyWarnings(plugin: NetworkPlugin): string[] {
  return Object.keys(plugin.raw)
    .filter((key) => reservedKeys.some((reserved) => reserved === key) || key.startsWith("cni.dev/"))
    .map((key) => `Plugin "${plugin.type}": key "${key}" belongs to the runtime and should not be in a file`)
}

/** A boolean, or the text "true" or "false" in any letter case, as CNI 0.4.0 had it. */
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

function invalid(message: string): CniError {
  return new CniError(Code.InvalidNetworkConfig, message)
}
