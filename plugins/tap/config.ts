import {
  type Fields,
  interfaceKeys,
  interfaceName,
  isCleanup,
  macAddress,
  off,
  parseConfig,
  readInterfaceKeys,
} from "../../pkg/config/mod.ts"
import type { ConfigCall } from "../../pkg/skel/mod.ts"
import type { NetworkConfig } from "../../pkg/types/mod.ts"

const id = { kind: "integer", min: 0, max: 2 ** 32 - 2 } as const // the next number is (uid_t)-1, which is not a user

/** The keys of its configuration. */
export const tapFields = {
  ...interfaceKeys,
  mtu: { kind: "integer", min: 0, max: 65521, default: 0 }, // 65535 without an Ethernet header, drivers/net/tun.c
  mac: macAddress,
  multiQueue: off,
  vnetHdr: off,
  owner: id,
  group: id,
  selinuxContext: { kind: "text", expected: "a SELinux context" },
  bridge: {
    ...interfaceName,
    check: (name: string) => name === "" || interfaceName.check(name),
    pattern: `^$|${interfaceName.pattern}`,
  },
} as const satisfies Fields

/** The checked configuration of a tap device. */
export type TapConfig = ReturnType<typeof parseTapConfig>

/**
 * Reads the configuration. For DEL and GC a wrong value counts as absent. Throws code 7 naming the key, or code 4 for
 * `CNI_ARGS`.
 */
export function parseTapConfig(network: NetworkConfig, { verb, args, raw }: ConfigCall) {
  const read = parseConfig(tapFields, raw, isCleanup(verb))
  return {
    ...read,
    ...readInterfaceKeys(read, network, { verb, args }),
    /** Undefined for this process's own. */
    selinuxContext: read.selinuxContext || undefined,
    /** The bridge in the container that gets the tap as a port. */
    bridge: read.bridge || undefined,
  }
}
