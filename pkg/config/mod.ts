/**
 * From a plugin's JSON to a checked value: one schema a plugin, one set of fields for all.
 *
 * @example
 * const schema = {
 *   bridge: { ...interfaceName, default: "cni0" },
 *   isGateway: off,
 *   mtu: { kind: "integer", min: 0, max: 65535, default: 0 },
 * } as const satisfies Fields
 * const { bridge, mtu } = parseConfig(schema, call.raw)
 */
export { ownDns } from "./dns.ts"
export { dns, interfaceName, macAddress, off } from "./fields.ts"
export { linkMtu, mtuOrNone } from "./link-mtu.ts"
export { invalidConfig, parseConfig } from "./parse.ts"
export { type MacRequest, requestedMac } from "./requested-mac.ts"
export type { Fields, Infer, Schema } from "./schema.ts"
