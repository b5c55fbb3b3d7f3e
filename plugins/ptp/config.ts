import {
  dns,
  type Fields,
  linkMtu,
  macAddress,
  mtuOrNone,
  off,
  ownDns,
  parseConfig,
  requestedMac,
} from "../../pkg/config/mod.ts"
import { type MasqueradeBackend, masqueradeBackends } from "../../pkg/masquerade/mod.ts"
import type { Verb } from "../../pkg/skel/mod.ts"
import { CniError, Code, type Dns, type JsonObject, type NetworkConfig } from "../../pkg/types/mod.ts"

const schema = {
  ipMasq: off,
  ipMasqBackend: { kind: "choice", of: masqueradeBackends, expected: '"nftables" or "iptables"' },
  mtu: mtuOrNone,
  dns,
  args: { kind: "object", fields: { cni: { kind: "object", fields: { mac: macAddress } } } },
  runtimeConfig: { kind: "object", fields: { mac: macAddress } },
} as const satisfies Fields

/** The configuration of a point-to-point attachment, checked. */
export interface PtpConfig {
  ipMasq: boolean
  /** Undefined: whichever the kernel can do. */
  ipMasqBackend: MasqueradeBackend | undefined
  /** Of both ends. */
  mtu: number | undefined
  /** Of the container's end. */
  mac: string | undefined
  ipam: string | undefined
  hasRules: boolean
  /** Replaces the IPAM plugin's; empty when the configuration takes that away. */
  dns: Dns | undefined
}

/**
 * Reads the configuration. For DEL and GC what is wrong or missing counts as absent. Throws code 7 that names the key,
 * also for a missing "ipam.type", or code 4 for `CNI_ARGS`.
 */
export function parsePtpConfig(
  network: NetworkConfig,
  { verb, args, raw }: { verb: Verb; args: string; raw: JsonObject },
): PtpConfig {
  const lenient = verb === "DEL" || verb === "GC"
  const read = parseConfig(schema, raw, lenient)
  if (!lenient && !network.ipam?.type) {
    throw new CniError(Code.InvalidNetworkConfig, `Cannot use network "${network.name}" with ptp: no "ipam.type"`, {
      details: "a point-to-point attachment needs addresses: name an IPAM plugin, such as host-local",
    })
  }
  return {
    ipMasq: read.ipMasq,
    ipMasqBackend: read.ipMasqBackend,
    mtu: linkMtu(read.mtu, lenient),
    // Upstream's ptp does not look at CNI_ARGS: keys that only others know must not become an error.
    mac: requestedMac(read, args === "" ? "" : `IgnoreUnknown=1;${args}`, lenient),
    dns: ownDns(read.dns, network.dns),
    ipam: network.ipam?.type || undefined,
    hasRules: read.ipMasq,
  }
}
