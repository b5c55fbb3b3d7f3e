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

/** The documentation of the keys, the source of the table on the plugin's page, the schema and the manual page. */
export const tapKeyDocs: readonly KeyDoc[] = [
  {
    paths: ["owner", "group"],
    default: "none",
    meaning:
      "numeric IDs that an unprivileged process must have to open the tap. Without both, **every user** with access to `/dev/net/tun` can open the tap",
  },
  {
    paths: ["multiQueue"],
    default: "false",
    meaning:
      "several descriptors can be attached at once, one per queue; programs must set `IFF_MULTI_QUEUE` if and only if this key is true",
  },
  {
    paths: ["vnetHdr"],
    default: "false",
    meaning: "frames begin with a `struct virtio_net_hdr`. An attaching program must set `IFF_VNET_HDR` too",
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
      "accepts routes and addresses from router advertisements; off by default if IPAM gave the interface IPv6 addresses, otherwise the kernel decides",
  },
  {
    paths: ["dns"],
    default: "the IPAM plugin's",
    meaning: "replaces the IPAM plugin's DNS if `dns` sets anything, even an empty list",
  },
  {
    keys: "`runtimeConfig.mac`, `args.cni.mac`, `CNI_ARGS` `MAC`, `mac`",
    paths: ["runtimeConfig.mac", "args.cni.mac", "mac"],
    default: "the kernel's",
    meaning: "the container's MAC; the first of these keys that is set takes effect",
  },
]

export type TapConfig = ReturnType<typeof parseTapConfig>

/** Parses the configuration; for DEL and GC, ignores invalid values. Throws code 7 with the key, 4 for `CNI_ARGS`. */
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
