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

/** Keys by which host-local had one range before it had `ranges`; left in, they clash with the subnet of the node. */
const formerRange = ["subnet", "rangeStart", "rangeEnd", "gateway"]

/** The delegate's configuration for this node: what is given, and the rest by flanneld's words. */
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

/** What a delegate needs in order to clean up, for want of the configuration that its ADD had. */
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

/** The plugin that a configuration is for. */
export function typeOf({ type }: JsonObject): string {
  return typeof type === "string" ? type : DEFAULT_TYPE
}

/** The subnets of the node in a configuration that `delegateConfig` has made, here or in the reference plugin. */
export function subnetsOf({ ipam }: JsonObject): string[] {
  const ranges = isJsonObject(ipam) && Array.isArray(ipam.ranges) ? ipam.ranges.flat() : []
  return ranges.flatMap((range) => (isJsonObject(range) && typeof range.subnet === "string" ? [range.subnet] : []))
}

/** Compact, with sorted keys, byte for byte as the reference plugin writes it. */
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

/** A configuration that was kept; undefined when it cannot be read. */
export function tryDecodeConfig(bytes: Uint8Array): JsonObject | undefined {
  try {
    return parseJsonObject(bytes)
  } catch {
    return undefined
  }
}
