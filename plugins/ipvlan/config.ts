import {
  dns,
  type Fields,
  interfaceKeys,
  isCleanup,
  linkNameOrNone,
  mtuOrNone,
  namesOf,
  off,
  parseConfig,
  readInterfaceKeys,
} from "../../pkg/config/mod.ts"
import { ipvlanFlags, ipvlanModes } from "../../pkg/netlink/mod.ts"
import type { ConfigCall } from "../../pkg/skel/mod.ts"
import type { NetworkConfig } from "../../pkg/types/mod.ts"

/** The keys of its configuration. */
export const ipvlanFields = {
  master: linkNameOrNone,
  mode: { kind: "choice", of: ["", ...namesOf(ipvlanModes)], expected: '"l2", "l3" or "l3s"', default: "" },
  flag: {
    kind: "choice",
    of: ["", ...namesOf(ipvlanFlags)],
    expected: '"bridge", "private" or "vepa"',
    default: "",
  },
  mtu: mtuOrNone,
  linkInContainer: off,
  acceptRa: interfaceKeys.acceptRa,
  dns,
} as const satisfies Fields

/** The checked configuration of an ipvlan attachment. */
export type IpvlanConfig = ReturnType<typeof parseIpvlanConfig>

/** Reads the configuration. For DEL and GC a wrong value counts as absent. Throws code 7 naming the key. */
export function parseIpvlanConfig(network: NetworkConfig, { verb, raw }: ConfigCall) {
  const read = parseConfig(ipvlanFields, raw, isCleanup(verb))
  return {
    ...readInterfaceKeys({ ...read, ipam: network.ipam }, network, { verb, args: "" }),
    /** Undefined for the interface of an earlier plugin, or the one of the default route. */
    master: read.master || undefined,
    linkInContainer: read.linkInContainer,
    mode: read.mode || "l2",
    flag: read.flag || "bridge",
  }
}
