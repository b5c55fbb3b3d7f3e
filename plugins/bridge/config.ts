import {
  type Fields,
  interfaceKeys,
  interfaceName,
  invalidConfig,
  isCleanup,
  masqueradeKeys,
  off,
  parseConfig,
  readInterfaceKeys,
} from "../../pkg/config/mod.ts"
import { encodeUtf8 } from "../../pkg/engine/mod.ts"
import type { ConfigCall } from "../../pkg/skel/mod.ts"
import { CniError, Code, type NetworkConfig } from "../../pkg/types/mod.ts"
import { parseVlans } from "./vlans.ts"

/** A number that may be a VLAN; which ones may, and when, is for `parseVlans` to say. */
const vlanId = { kind: "integer", expected: "a VLAN ID" } as const

/** The keys of its configuration. */
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

/** The configuration of a bridge attachment, checked. */
export type BridgeConfig = ReturnType<typeof parseBridgeConfig>

/**
 * Reads the configuration. For DEL and GC what is wrong counts as absent. Throws code 7 that names the key, or code 4
 * for `CNI_ARGS`.
 */
export function parseBridgeConfig(network: NetworkConfig, call: ConfigCall) {
  const { verb } = call
  const lenient = isCleanup(verb)
  const read = parseConfig(bridgeFields, call.raw, lenient)
  const common = readInterfaceKeys(read, network, call)
  const { ipam } = common
  const mustServe = verb === "ADD" || verb === "STATUS"
  if (mustServe && read.hairpinMode && read.promiscMode) {
    throw invalidConfig("promiscMode", "false together with hairpinMode", true)
  }
  if (mustServe && read.disableContainerInterface && ipam) {
    throw new CniError(
      Code.InvalidNetworkConfig,
      "cannot use IPAM when DisableContainerInterface flag is set", // as upstream says it
      { details: "an interface that is down cannot use addresses" },
    )
  }
  const vlans = parseVlans(lenient ? 0 : read.vlan, lenient ? undefined : read.vlanTrunk, read.preserveDefaultVlan)
  const isGateway = read.isGateway || read.isDefaultGateway
  return {
    ...read,
    ...common,
    isGateway,
    /** Of a container that has its addresses and the host for its router no neighbour is to make another one. */
    acceptRa: read.acceptRa ?? (isGateway && ipam ? false : undefined),
    vlans,
    /** The interface by which the host is in the VLAN; undefined where the bridge itself has the gateway addresses. */
    vlanGateway: isGateway && ipam && vlans.native !== 0 ? gatewayName(read.bridge, vlans.native) : undefined,
    hasRules: (read.ipMasq && ipam !== undefined) || read.macspoofchk,
  }
}

/** "BRIDGE.VLAN", which has to be a name that the kernel takes. */
function gatewayName(bridge: string, vlan: number): string {
  const name = `${bridge}.${vlan}`
  const length = encodeUtf8(name).length
  if (length <= 15) return name
  throw new CniError(
    Code.InvalidNetworkConfig,
    `Cannot use VLAN ${vlan} with a gateway on bridge "${bridge}": the name of its interface would be too long`,
    { details: `"${name}" has ${length} bytes, and 15 fit: choose a shorter name for the bridge` },
  )
}
