import { isJsonObject, type JsonObject, type JsonValue } from "../../pkg/types/mod.ts"

/** The part of a network's configuration that names its addresses. */
export interface IpamPart {
  /** The plugin with it, as it is written. */
  readonly plugin: JsonObject
  readonly ipam: JsonObject
}

/** The `ipam` parts of a configuration, one plugin or a list, that are of an IPAM plugin. Throws for text that is not a JSON object. */
export function ipamParts(text: string, type: string): IpamPart[] {
  return pluginsOf(readObject(text)).flatMap((plugin) => {
    const ipam = entryOf(plugin, "ipam")?.[1]
    return isJsonObject(ipam) && entryOf(ipam, "type")?.[1] === type ? [{ plugin, ipam }] : []
  })
}

/** The same configuration with the `ipam` parts of an IPAM plugin replaced. All else stays. */
export function withIpam(text: string, type: string, replace: (ipam: JsonObject) => JsonObject): string {
  const changed = (plugin: JsonObject): JsonObject => {
    const [key = "", ipam] = entryOf(plugin, "ipam") ?? []
    return isJsonObject(ipam) && entryOf(ipam, "type")?.[1] === type ? { ...plugin, [key]: replace(ipam) } : plugin
  }
  const network = readObject(text)
  const [key = "", plugins] = entryOf(network, "plugins") ?? []
  const list = Array.isArray(plugins) ? plugins.map((each) => (isJsonObject(each) ? changed(each) : each)) : undefined
  return `${JSON.stringify(list ? { ...network, [key]: list } : changed(network), null, 2)}\n`
}

/** An object without these keys; keys are compared as Go does it, without regard to case. */
export function withoutKeys(object: JsonObject, keys: readonly string[]): JsonObject {
  const away = new Set(keys.map((key) => key.toLowerCase()))
  return Object.fromEntries(Object.entries(object).filter(([key]) => !away.has(key.toLowerCase())))
}

/** The value of a key, without regard to case. */
export function memberOf(object: JsonObject, key: string): JsonValue | undefined {
  return entryOf(object, key)?.[1]
}

/** The text of a key, undefined for "" and for anything else. */
export function textOf(object: JsonObject, key: string): string | undefined {
  const value = memberOf(object, key)
  return typeof value === "string" && value !== "" ? value : undefined
}

function pluginsOf(network: JsonObject): JsonObject[] {
  const plugins = entryOf(network, "plugins")?.[1]
  return Array.isArray(plugins) ? plugins.filter(isJsonObject) : [network]
}

function entryOf(object: JsonObject, key: string): [string, JsonValue] | undefined {
  return Object.entries(object).find(([each]) => each.toLowerCase() === key.toLowerCase())
}

function readObject(text: string): JsonObject {
  const value: JsonValue = JSON.parse(text)
  if (isJsonObject(value)) return value
  throw new Error("expected a JSON object")
}
