import {
  dns,
  type Fields,
  interfaceKeys,
  isCleanup,
  linkNameOrNone,
  macAddress,
  mtuOnMaster,
  namesOf,
  off,
  parseConfig,
  readInterfaceKeys,
} from "../../pkg/config/mod.ts"
import { macvlanModes } from "../../pkg/netlink/mod.ts"
import type { ConfigCall } from "../../pkg/skel/mod.ts"
import type { NetworkConfig } from "../../pkg/types/mod.ts"

/** The keys of its configuration. */
export const macvlanFields = {
  master: linkNameOrNone,
  mode: {
    kind: "choice",
    of: ["", ...namesOf(macvlanModes)],
    expected: '"bridge", "private", "vepa" or "passthru"',
    default: "bridge",
  },
  mtu: mtuOnMaster,
  mac: macAddress,
  linkInContainer: off,
  acceptRa: interfaceKeys.acceptRa,
  bcqueuelen: { kind: "integer", min: 0, max: 2 ** 32 - 1, default: 0 },
  dns,
  ipam: interfaceKeys.ipam,
  runtimeConfig: { kind: "object", fields: { mac: macAddress } },
} as const satisfies Fields

/** The checked configuration of a macvlan attachment. */
export type MacvlanConfig = ReturnType<typeof parseMacvlanConfig>

/**
 * Reads the configuration. For DEL and GC a wrong value counts as absent. Throws code 7 naming the key, or code 4 for
 * `CNI_ARGS`.
 */
export function parseMacvlanConfig(network: NetworkConfig, call: ConfigCall) {
  const read = parseConfig(macvlanFields, call.raw, isCleanup(call.verb))
  return {
    ...readInterfaceKeys(read, network, call),
    ...(read.mtu < 0 && !isCleanup(call.verb) && { mtu: read.mtu }), // the range in the error is the master's
    /** Undefined for the interface of an earlier plugin, or the one of the default route. */
    master: read.master || undefined,
    linkInContainer: read.linkInContainer,
    mode: read.mode || "bridge",
    /** Undefined for the kernel's default, 1000. */
    bcqueuelen: read.bcqueuelen || undefined,
  }
}
