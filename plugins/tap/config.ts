import {
  type Fields,
  interfaceKeys,
  interfaceName,
  isCleanup,
  type KeyDoc,
  macAddress,
  off,
  parseConfig,
  readInterfaceKeys,
} from "../../pkg/config/mod.ts"
import type { ConfigCall } from "../../pkg/skel/mod.ts"
import type { NetworkConfig } from "../../pkg/types/mod.ts"

const id = { kind: "integer", min: 0, max: 2 ** 32 - 2 } as const // the next number is (uid_t)-1, which means no user

/** The keys of the plugin's configuration. */
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

/**
 * The documentation of the keys. The table on the plugin's page, the schema and the manual page are generated from it.
 */
export const tapKeyDocs: readonly KeyDoc[] = [
  {
    paths: ["owner", "group"],
    default: "none",
    meaning:
      "numbers: an unprivileged process must match the given IDs to open the tap. **Without both, every user can open it** who can open `/dev/net/tun`",
  },
  {
    paths: ["multiQueue"],
    default: "false",
    meaning:
      "several descriptors can be attached at once, one per queue; programs must then set `IFF_MULTI_QUEUE`, and only then",
  },
  {
    paths: ["vnetHdr"],
    default: "false",
    meaning: "frames begin with a `struct virtio_net_hdr`. An attaching program must set this flag too",
  },
  { paths: ["bridge"], default: "none", meaning: "an existing bridge in the container; the tap becomes its port" },
  { paths: ["mtu"], default: "the kernel's 1500", meaning: "68 to 65521; 0 for the kernel's" },
  {
    paths: ["selinuxContext"],
    default: "the plugin's own",
    meaning: "the SELinux context in which the tap is created, such as `system_u:system_r:container_t:s0`",
  },
  { paths: ["ipam.type"], default: "none", meaning: "the IPAM plugin; without it the interface has no addresses" },
  {
    paths: ["acceptRa"],
    default: "see right",
    meaning:
      "whether the interface accepts routes and addresses from router advertisements; by default not if IPAM gave it IPv6 addresses, otherwise as the kernel decides",
  },
  {
    paths: ["dns"],
    default: "the IPAM plugin's",
    meaning: "replaces the IPAM plugin's DNS if it has any member; an empty list removes the IPAM plugin's",
  },
  {
    keys: "`runtimeConfig.mac`, `args.cni.mac`, `CNI_ARGS` `MAC`, `mac`",
    paths: ["runtimeConfig.mac", "args.cni.mac", "mac"],
    default: "the kernel's",
    meaning: "the container's MAC; the first of these takes effect",
  },
]

/** The checked configuration of a tap device. */
export type TapConfig = ReturnType<typeof parseTapConfig>

/**
 * Parses the configuration. DEL and GC treat an invalid value as absent. Throws code 7 that names the key, or code 4
 * for `CNI_ARGS`.
 */
export function parseTapConfig(network: NetworkConfig, { verb, args, raw }: ConfigCall) {
  const read = parseConfig(tapFields, raw, isCleanup(verb))
  return {
    ...read,
    ...readInterfaceKeys(read, network, { verb, args }),
    /** Undefined selects the context of this process. */
    selinuxContext: read.selinuxContext || undefined,
    /** The bridge in the container that the tap joins. */
    bridge: read.bridge || undefined,
  }
}
