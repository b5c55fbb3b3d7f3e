import {
  dns,
  type Fields,
  interfaceKeys,
  linkMtu,
  linkNameOrNone,
  macAddress,
  mtuOrNone,
  off,
  ownDns,
  parseConfig,
  requestedMac,
} from "../../pkg/config/mod.ts"
import { macvlanModes } from "../../pkg/netlink/mod.ts"
import type { Verb } from "../../pkg/skel/mod.ts"
import { type Dns, formatMac, type JsonObject, type NetworkConfig, parseMac } from "../../pkg/types/mod.ts"

type Mode = keyof typeof macvlanModes

/** The keys of its configuration. */
export const macvlanFields = {
  master: linkNameOrNone,
  mode: {
    kind: "choice",
    of: ["", ...Object.keys(macvlanModes)],
    expected: '"bridge", "private", "vepa" or "passthru"',
    default: "bridge",
  },
  mtu: { ...mtuOrNone, min: 0 },
  mac: macAddress,
  linkInContainer: off,
  bcqueuelen: { kind: "integer", min: 0, max: 2 ** 32 - 1, default: 0 },
  dns,
  ipam: interfaceKeys.ipam,
  runtimeConfig: { kind: "object", fields: { mac: macAddress } },
} as const satisfies Fields

/** The configuration of a macvlan attachment, checked. */
export interface MacvlanConfig {
  /** The link that it sits on; undefined for that of an earlier plugin, or of the default route. */
  master: string | undefined
  /** The master is in the container's namespace, not in the host's. */
  linkInContainer: boolean
  mode: Mode
  /** Frames that wait to be copied to the other macvlans; undefined for the kernel's 1000. */
  broadcastQueueLength: number | undefined
  mtu: number | undefined
  mac: string | undefined
  /** Replaces the IPAM plugin's; empty when the configuration takes that away. */
  dns: Dns | undefined
  ipam: string | undefined
}

/**
 * Reads the configuration. For DEL and GC what is wrong counts as absent. Throws code 7 that names the key, or code 4 for
 * `CNI_ARGS`.
 */
export function parseMacvlanConfig(
  network: NetworkConfig,
  { verb, args, raw }: { verb: Verb; args: string; raw: JsonObject },
): MacvlanConfig {
  const lenient = verb === "DEL" || verb === "GC"
  const read = parseConfig(macvlanFields, raw, lenient)
  const configured = read.mac === undefined ? undefined : parseMac(read.mac)
  return {
    master: read.master || undefined,
    linkInContainer: read.linkInContainer,
    mode: (read.mode || "bridge") as Mode,
    broadcastQueueLength: read.bcqueuelen || undefined,
    mtu: linkMtu(read.mtu, lenient),
    mac: requestedMac(read, args, lenient) ?? (configured && formatMac(configured)),
    dns: ownDns(read.dns, network.dns),
    ipam: read.ipam?.type || undefined,
  }
}
