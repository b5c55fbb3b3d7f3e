import { encodeUtf8 } from "../../pkg/engine/mod.ts"
import {
  foldKeys,
  isJsonObject,
  type JsonObject,
  type JsonValue,
  parseJsonObject,
  stringifyJson,
} from "../../pkg/types/mod.ts"
import type { FlannelConfig } from "./config.ts"
import type { NodeSubnets } from "./subnet-file.ts"

const DEFAULT_TYPE = "bridge"
const DEFAULT_IPAM = "host-local"

/**
 * Obsolete keys for a single range of host-local. They are removed, because they conflict with the subnet of the node.
 */
const formerRange = ["subnet", "rangeStart", "rangeEnd", "gateway"]

/** Returns the delegate's configuration for this node: the given keys, completed from flanneld's file. */
export function delegateConfig(config: FlannelConfig, { networks, subnets, mtu, ipMasq }: NodeSubnets): JsonObject {
  const { ranges: _, ...base } = requiredParts(config)
  const { routes } = config.ipam
  const given = Array.isArray(routes) ? routes : []
  const ipam = {
    ...(base.ipam as JsonObject),
    ranges: subnets.map((subnet) => [{ subnet }]),
    routes: [...given, ...networks.map((dst) => ({ dst }))],
  }
  const byFlanneld: JsonObject = { ipMasq: !ipMasq, mtu, ...(base.type === DEFAULT_TYPE ? { isGateway: true } : {}) }
  return { ...byFlanneld, ...base, ipam, ...(config.runtimeConfig ? { runtimeConfig: config.runtimeConfig } : {}) }
}

/** Returns the configuration that a delegate needs for DEL if the configuration of its ADD is missing. */
export function requiredParts({ cniVersion, name, delegate, ipam }: FlannelConfig): JsonObject {
  const { ranges: _, ...others } = foldKeys(ipam, ["type", "ranges", "routes", ...formerRange])
  for (const key of formerRange) delete others[key]
  return {
    ...(cniVersion === undefined ? {} : { cniVersion }),
    type: DEFAULT_TYPE,
    ...delegate,
    name,
    ipam: { type: DEFAULT_IPAM, ...others },
  }
}

export function typeOf({ type }: JsonObject): string {
  return typeof type === "string" ? type : DEFAULT_TYPE
}

/** Returns the node's subnets in a configuration made by `delegateConfig`, or by the reference plugin. */
export function subnetsOf({ ipam }: JsonObject): string[] {
  const ranges = isJsonObject(ipam) && Array.isArray(ipam.ranges) ? ipam.ranges.flat() : []
  return ranges.flatMap((range) => (isJsonObject(range) && typeof range.subnet === "string" ? [range.subnet] : []))
}

/** Encodes a configuration without white space and with sorted keys, byte for byte like the reference plugin. */
export function encodeConfig(config: JsonObject): Uint8Array {
  return encodeUtf8(stringifyJson(sorted(config)))
}

function sorted(value: JsonValue): JsonValue {
  if (Array.isArray(value)) return value.map(sorted)
  if (!isJsonObject(value)) return value
  return Object.fromEntries(
    Object.keys(value)
      .sort()
      .map((key) => [key, sorted(value[key] ?? null)]),
  )
}

/** Decodes a stored configuration; undefined if it cannot be decoded. */
export function tryDecodeConfig(bytes: Uint8Array): JsonObject | undefined {
  try {
    return parseJsonObject(bytes)
  } catch {
    return undefined
  }
}
