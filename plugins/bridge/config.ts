import {
  type Fields,
  interfaceKeys,
  interfaceName,
  invalidConfig,
  isCleanup,
  type KeyDoc,
  masqueradeKeys,
  off,
  parseConfig,
  readInterfaceKeys,
} from "../../pkg/config/mod.ts"
import { encodeUtf8 } from "../../pkg/engine/mod.ts"
import type { ConfigCall } from "../../pkg/skel/mod.ts"
import { CniError, Code, IFNAMSIZ, type NetworkConfig } from "../../pkg/types/mod.ts"
import { parseVlans } from "./vlans.ts"

/** A field for a VLAN ID. `parseVlans` checks whether the number is valid. */
const vlanId = { kind: "integer", expected: "a VLAN ID" } as const

export const bridgeFields = {
  ...interfaceKeys,
  ...masqueradeKeys,
  bridge: { ...interfaceName, default: "cni0" },
  isGateway: off,
  isDefaultGateway: off,
  forceAddress: off,
  hairpinMode: off,
  promiscMode: off,
  enabledad: off,
  vlan: { ...vlanId, default: 0 },
  vlanTrunk: {
    kind: "list",
    of: { kind: "object", fields: { id: vlanId, minID: vlanId, maxID: vlanId }, nullable: true },
    expected: "a list of VLANs",
  },
  preserveDefaultVlan: off,
  macspoofchk: off,
  portIsolation: off,
  disableContainerInterface: off,
} as const satisfies Fields

/** The documentation of the keys, the source of the table on the plugin's page, the schema and the manual page. */
export const bridgeKeyDocs: readonly KeyDoc[] = [
  { paths: ["bridge"], default: "`cni0`", meaning: "the bridge; created if it does not exist, and never removed" },
  {
    paths: ["isGateway"],
    default: "false",
    meaning: "gives the bridge the gateway address of each of the container's networks, and enables forwarding",
  },
  {
    paths: ["isDefaultGateway"],
    default: "false",
    meaning: "`isGateway`, and a default route in the container for each family that has none",
  },
  {
    paths: ["forceAddress"],
    default: "false",
    meaning:
      "replaces an address of the bridge if its network overlaps that of the gateway; by default this is an error",
  },
  { paths: ["ipMasq"], default: "false", meaning: "traffic to other networks leaves the host with the host's address" },
  {
    paths: ["ipMasqBeyond"],
    default: "none",
    meaning: "a list of networks, such as a cluster's: traffic between addresses of one of them is not masqueraded",
  },
  {
    paths: ["ipMasqBackend"],
    default: "kernel's",
    meaning:
      "`nftables`, or `iptables`, which needs the programs of iptables; it is the default only if the kernel has no nf_tables",
  },
  {
    paths: ["mtu"],
    default: "kernel's",
    meaning: "MTU of both ends of the pair, and of a new bridge; 0 or less for the kernel's choice",
  },
  { paths: ["hairpinMode"], default: "false", meaning: "frames may leave through the port that received them" },
  { paths: ["promiscMode"], default: "false", meaning: "the bridge is promiscuous; not together with `hairpinMode`" },
  {
    paths: ["vlan"],
    default: "0, none",
    meaning: '1 to 4094: the VLAN of the port for untagged frames; see "VLANs"',
  },
  {
    paths: ["vlanTrunk"],
    default: "none",
    meaning: 'the VLANs of the port for tagged frames: a list of `{"id": 5}` and `{"minID": 10, "maxID": 20}`',
  },
  {
    paths: ["preserveDefaultVlan"],
    default: "false",
    meaning: "the port stays in the bridge's default VLAN",
  },
  {
    paths: ["macspoofchk"],
    default: "false",
    meaning: "drops frames of the container with another source MAC than its interface's",
  },
  { paths: ["portIsolation"], default: "false", meaning: "isolated ports of the bridge cannot reach each other" },
  {
    paths: ["disableContainerInterface"],
    default: "false",
    meaning: "leaves the container's interface down; not together with `ipam`",
  },
  {
    paths: ["enabledad"],
    default: "false",
    meaning: "waits up to 5 s for duplicate address detection of IPv6 addresses",
  },
  {
    paths: ["acceptRa"],
    default: "see right",
    meaning:
      "accepts routes and addresses from router advertisements; off by default if the host is the router (`isGateway` or `isDefaultGateway`, with `ipam`) or IPAM gave the interface IPv6 addresses, otherwise the kernel decides",
  },
  {
    paths: ["dns"],
    default: "IPAM's",
    meaning: "replaces the IPAM plugin's DNS if `dns` sets anything, even an empty list",
  },
  {
    paths: ["ipam.type"],
    default: "none",
    meaning: "the IPAM plugin; without one the container gets an interface and no address",
  },
  {
    keys: "`runtimeConfig.mac`, `args.cni.mac`, `CNI_ARGS` `MAC`",
    paths: ["runtimeConfig.mac", "args.cni.mac"],
    default: "kernel's",
    meaning: "the container's MAC; the first of these keys that is set takes effect",
  },
]

export type BridgeConfig = ReturnType<typeof parseBridgeConfig>

/** Parses the configuration; for DEL and GC, ignores invalid values. Throws code 7 with the key, 4 for `CNI_ARGS`. */
export function parseBridgeConfig(network: NetworkConfig, call: ConfigCall) {
  const { verb } = call
  const lenient = isCleanup(verb)
  const read = parseConfig(bridgeFields, call.raw, lenient)
  const common = readInterfaceKeys(read, network, call)
  const { ipam } = common
  const mustServe = verb === "ADD" || verb === "STATUS"
  if (mustServe && read.hairpinMode && read.promiscMode) {
    throw invalidConfig("promiscMode", "false when hairpinMode is true", true)
  }
  if (mustServe && read.disableContainerInterface && ipam) {
    throw new CniError(
      Code.InvalidNetworkConfig,
      "cannot use IPAM when DisableContainerInterface flag is set", // upstream's words
      { details: "an interface that is down cannot use addresses" },
    )
  }
  const vlans = parseVlans(lenient ? 0 : read.vlan, lenient ? undefined : read.vlanTrunk, read.preserveDefaultVlan)
  const isGateway = read.isGateway || read.isDefaultGateway
  return {
    ...read,
    ...common,
    isGateway,
    /** A container with addresses and the host as its router must ignore router advertisements from its neighbors. */
    acceptRa: read.acceptRa ?? (isGateway && ipam ? false : undefined),
    vlans,
    /** The name of the host's interface in the VLAN; undefined if the bridge itself has the gateway addresses. */
    vlanGateway: isGateway && ipam && vlans.native !== 0 ? gatewayName(read.bridge, vlans.native) : undefined,
    hasRules: (read.ipMasq && ipam !== undefined) || read.macspoofchk,
  }
}

/** Returns "BRIDGE.VLAN", which must be a valid interface name. */
function gatewayName(bridge: string, vlan: number): string {
  const name = `${bridge}.${vlan}`
  const length = encodeUtf8(name).length
  if (length < IFNAMSIZ) return name
  throw new CniError(
    Code.InvalidNetworkConfig,
    `Cannot use VLAN ${vlan} with a gateway on bridge "${bridge}": the name of its interface would be too long`,
    {
      details: `"${name}" has ${length} bytes, but a name has at most ${IFNAMSIZ - 1}: choose a shorter name for the bridge`,
    },
  )
}
