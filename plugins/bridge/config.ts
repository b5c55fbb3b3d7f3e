import * as v from "valibot"
import {
  dnsFields,
  integer,
  interfaceName,
  invalidConfig,
  macAddress,
  off,
  parseConfig,
  requestedMac,
} from "../../pkg/config/mod.ts"
import { type MasqueradeBackend, masqueradeBackends } from "../../pkg/ip/mod.ts"
import type { Verb } from "../../pkg/skel/mod.ts"
import type { Dns, JsonObject, NetworkConfig } from "../../pkg/types/mod.ts"

const schema = v.object({
  bridge: v.optional(interfaceName, "cni0"),
  isGateway: off,
  isDefaultGateway: off,
  forceAddress: off,
  ipMasq: off,
  ipMasqBackend: v.optional(v.picklist(masqueradeBackends, '"nftables" or "iptables"')),
  /** 0, and what is below it, leaves the MTU to the kernel. */
  mtu: v.optional(integer(-(2 ** 31), 65535), 0),
  hairpinMode: off,
  promiscMode: off,
  enabledad: off,
  dns: v.optional(dnsFields),
  ipam: v.optional(v.object({ type: v.optional(v.string("the name of an IPAM plugin")) })),
  args: v.optional(v.object({ cni: v.optional(v.object({ mac: v.optional(macAddress) })) })),
  runtimeConfig: v.optional(v.object({ mac: v.optional(macAddress) })),
})

/** The configuration of a bridge attachment, checked. */
export interface BridgeConfig {
  bridge: string
  isGateway: boolean
  isDefaultGateway: boolean
  forceAddress: boolean
  ipMasq: boolean
  /** Undefined: whichever the kernel can do. */
  ipMasqBackend: MasqueradeBackend | undefined
  mtu: number | undefined
  hairpinMode: boolean
  promiscMode: boolean
  detectDuplicates: boolean
  /** Of the container's end. */
  mac: string | undefined
  /** Replaces the IPAM plugin's when any member is there. */
  dns: Dns | undefined
  /** The IPAM plugin; undefined for an attachment without addresses. */
  ipam: string | undefined
}

/**
 * Reads the configuration. For DEL and GC what is wrong counts as absent. Throws code 7 that names the key, or code 4
 * for `CNI_ARGS`.
 */
export function parseBridgeConfig(
  network: NetworkConfig,
  { verb, args, raw }: { verb: Verb; args: string; raw: JsonObject },
): BridgeConfig {
  const lenient = verb === "DEL" || verb === "GC"
  const read = parseConfig(schema, raw, lenient)
  if (verb === "ADD" && read.hairpinMode && read.promiscMode) {
    throw invalidConfig("promiscMode", "false together with hairpinMode", true)
  }
  return {
    bridge: read.bridge,
    isGateway: read.isGateway || read.isDefaultGateway,
    isDefaultGateway: read.isDefaultGateway,
    forceAddress: read.forceAddress,
    ipMasq: read.ipMasq,
    ipMasqBackend: read.ipMasqBackend,
    mtu: read.mtu > 0 ? read.mtu : undefined,
    hairpinMode: read.hairpinMode,
    promiscMode: read.promiscMode,
    detectDuplicates: read.enabledad,
    mac: requestedMac(read, args, lenient),
    dns: network.dns && Object.keys(network.dns).length > 0 ? network.dns : undefined,
    ipam: read.ipam?.type || undefined,
  }
}
