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
import { ipvlanFlags, ipvlanModes } from "../../pkg/netlink/mod.ts"
import type { Verb } from "../../pkg/skel/mod.ts"
import type { Dns, JsonObject, NetworkConfig } from "../../pkg/types/mod.ts"

/** The keys of its configuration. */
export const ipvlanFields = {
  master: linkNameOrNone,
  mode: { kind: "choice", of: ["", ...Object.keys(ipvlanModes)], expected: '"l2", "l3" or "l3s"', default: "" },
  flag: {
    kind: "choice",
    of: ["", ...Object.keys(ipvlanFlags)],
    expected: '"bridge", "private" or "vepa"',
    default: "",
  },
  mtu: mtuOrNone,
  linkInContainer: off,
  dns,
} as const satisfies Fields

/** The configuration of an ipvlan attachment, checked. */
export interface IpvlanConfig {
  /** The link that it sits on; undefined for that of an earlier plugin, or of the default route. */
  master: string | undefined
  /** The master is in the container's namespace, not in the host's. */
  linkInContainer: boolean
  mode: keyof typeof ipvlanModes
  /** Whether the containers of one master reach one another: directly, not at all, or by way of the switch outside. */
  flag: keyof typeof ipvlanFlags
  mtu: number | undefined
  /** Replaces the IPAM plugin's; empty when the configuration takes that away. */
  dns: Dns | undefined
  ipam: string | undefined
}

/** Reads the configuration. For DEL and GC what is wrong counts as absent. Throws code 7 that names the key. */
export function parseIpvlanConfig(
  network: NetworkConfig,
  { verb, raw }: { verb: Verb; raw: JsonObject },
): IpvlanConfig {
  const lenient = isCleanup(verb)
  const read = parseConfig(ipvlanFields, raw, lenient)
  return {
    master: read.master || undefined,
    linkInContainer: read.linkInContainer,
    mode: (read.mode || "l2") as IpvlanConfig["mode"],
    flag: (read.flag || "bridge") as IpvlanConfig["flag"],
    mtu: linkMtu(read.mtu, lenient),
    dns: ownDns(read.dns, network.dns),
    ipam: network.ipam?.type || undefined,
  }
}
