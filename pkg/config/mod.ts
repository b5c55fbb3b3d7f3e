/**
 * From a plugin's JSON to a checked value: one schema a plugin, one set of fields for all.
 *
 * @example
 * const schema = v.object({ bridge: v.optional(interfaceName, "cni0"), isGateway: off })
 * const config = parseConfig(schema, call.raw)
 */
export { ownDns } from "./dns.ts"
export { dnsFields, integer, interfaceName, ipAddress, macAddress, off } from "./fields.ts"
export { invalidConfig, parseConfig } from "./parse.ts"
export { type MacRequest, requestedMac } from "./requested-mac.ts"
