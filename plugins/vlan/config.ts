import {
  dns,
  type Fields,
  isCleanup,
  linkMtu,
  linkNameOrNone,
  mtuOrNone,
  off,
  ownDns,
  parseConfig,
} from "../../pkg/config/mod.ts"
import { vlanProtocols } from "../../pkg/netlink/mod.ts"
import type { Verb } from "../../pkg/skel/mod.ts"
import { CniError, Code, type Dns, type JsonObject, type NetworkConfig } from "../../pkg/types/mod.ts"

/** The keys of its configuration. */
export const vlanFields = {
  master: linkNameOrNone,
  vlanId: { kind: "integer", min: 0, max: 4094, default: 0 },
  protocol: {
    kind: "choice",
    of: Object.keys(vlanProtocols),
    expected: '"802.1Q" or "802.1ad"',
    ignoreCase: true,
    default: "802.1q",
  },
  mtu: { ...mtuOrNone, min: 0 },
  linkInContainer: off,
  dns,
} as const satisfies Fields

/** The configuration of a VLAN attachment, checked. */
export interface VlanConfig {
  /** The link that carries the VLAN; undefined only for DEL and GC. */
  master: string | undefined
  /** The master is in the container's namespace, not in the host's. */
  linkInContainer: boolean
  vlanId: number
  protocol: keyof typeof vlanProtocols
  mtu: number | undefined
  /** Replaces the IPAM plugin's; empty when the configuration takes that away. */
  dns: Dns | undefined
  ipam: string | undefined
}

/**
 * Reads the configuration. For DEL and GC what is wrong or missing counts as absent. Throws code 7 that names the key,
 * also for a missing "master" or "ipam.type".
 */
export function parseVlanConfig(network: NetworkConfig, { verb, raw }: { verb: Verb; raw: JsonObject }): VlanConfig {
  const lenient = isCleanup(verb)
  const read = parseConfig(vlanFields, raw, lenient)
  const missing = !read.master ? "master" : network.ipam?.type ? undefined : "ipam.type"
  if (missing && !lenient) {
    throw new CniError(Code.InvalidNetworkConfig, `Cannot use network "${network.name}" with vlan: no "${missing}"`)
  }
  return {
    master: read.master || undefined,
    linkInContainer: read.linkInContainer,
    vlanId: read.vlanId,
    protocol: read.protocol as VlanConfig["protocol"],
    mtu: linkMtu(read.mtu, lenient),
    dns: ownDns(read.dns, network.dns),
    ipam: network.ipam?.type || undefined,
  }
}
