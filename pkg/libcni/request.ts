import { readResult } from "../invoke/mod.ts"
import {
  CniError,
  Code,
  convertResult,
  isJsonObject,
  type JsonObject,
  type JsonValue,
  member,
  parseJsonObject,
} from "../types/mod.ts"
import type { Network, NetworkPlugin } from "./network.ts"
import type { CapabilityArgs, ResultDocument } from "./typed.ts"

/** Keys of a plugin's configuration that only a runtime may set (CNI 1.1.0, "Plugin configuration objects"). */
export const reservedKeys = ["prevResult", "runtimeConfig"]

/** The values that an operation adds to a plugin's configuration. */
export interface Derivation {
  readonly prevResult?: JsonObject | ResultDocument | undefined
  /** Values that the runtime offers. Those that the plugin requests become its `runtimeConfig`. */
  readonly capabilityArgs?: CapabilityArgs
  readonly validAttachments?: readonly { readonly containerId: string; readonly ifName: string }[]
}

/**
 * Returns a plugin's stdin: its configuration with the network's `name` and `cniVersion`, and with the values of the
 * operation (CNI 1.1.0, "Deriving request configuration from plugin configuration"). The rest stays as written.
 */
export function deriveRequest(network: Network, plugin: NetworkPlugin, given: Derivation): JsonObject {
  let request = plugin.raw
  if (given.capabilityArgs !== undefined) {
    request = without(request, "capabilities")
    const runtimeConfig = capabilityValues(plugin, given.capabilityArgs)
    if (Object.keys(runtimeConfig).length > 0) request = inject(request, [["runtimeConfig", runtimeConfig]])
  }
  const entries: [string, JsonValue][] = [
    ["name", network.name],
    ["cniVersion", network.cniVersion],
  ]
  if (given.prevResult) entries.push(["prevResult", given.prevResult as JsonObject])
  if (given.validAttachments) {
    const valid = given.validAttachments.map((one) => ({ containerID: one.containerId, ifname: one.ifName }))
    entries.push(["cni.dev/valid-attachments", valid], ["cni.dev/attachments", valid]) // the second is its name in 1.1.0
  }
  return inject(request, entries)
}

/**
 * Returns a copy of `config` with the keys of `entries`. Each key replaces all of its spellings, because readers that
 * ignore case could use another spelling. Throws code 7 for an empty key or a null value.
 */
export function inject(config: JsonObject, entries: readonly (readonly [string, JsonValue | undefined])[]): JsonObject {
  let injected = config
  for (const [key, value] of entries) {
    if (key === "") throw new CniError(Code.InvalidNetworkConfig, "keys cannot be empty")
    if (value === null || value === undefined) {
      throw new CniError(Code.InvalidNetworkConfig, `key '${key}' value must not be nil`)
    }
    injected = { ...without(injected, key), [key]: value }
  }
  return injected
}

/** Returns the runtime's values for the capabilities that the plugin declares as `true`. */
function capabilityValues(plugin: NetworkPlugin, offered: CapabilityArgs): JsonObject {
  return Object.fromEntries(
    enabledCapabilities(plugin).flatMap((name) => {
      const value = Object.hasOwn(offered, name) ? offered[name] : undefined
      return value === undefined ? [] : [[name, value as JsonValue] as const]
    }),
  )
}

export function enabledCapabilities(plugin: NetworkPlugin): string[] {
  const capabilities = member(plugin.raw, "capabilities")
  if (!isJsonObject(capabilities)) return []
  return Object.entries(capabilities)
    .filter(([, enabled]) => enabled === true)
    .map(([name]) => name)
}

function without(object: JsonObject, key: string): JsonObject {
  const folded = key.toLowerCase()
  return Object.fromEntries(Object.entries(object).filter(([name]) => name.toLowerCase() !== folded))
}

/**
 * Returns a plugin's result for the next plugin and the cache, in the network's version and with unknown keys. Converts
 * a result of another version. Throws code 6 if it is not a result.
 */
export function chainResult(stdout: string, networkVersion: string): JsonObject {
  readResult(stdout, networkVersion)
  return inVersion(parseJsonObject(stdout, "result"), networkVersion)
}

/** Returns a result in a version; the same document if it already has that version. Throws like `convertResult`. */
export function inVersion(result: JsonObject, version: string): JsonObject {
  const asked = version === "" ? "0.1.0" : version
  const written = member(result, "cniVersion")
  const label = typeof written === "string" && written !== "" ? written : asked
  if (label !== asked) return convertResult(result, label, asked)
  return written === label ? result : { cniVersion: label, ...inject(result, [["cniVersion", label]]) }
}
