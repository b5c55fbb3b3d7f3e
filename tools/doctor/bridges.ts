import { RTN_LOCAL } from "../../pkg/netlink/mod.ts"
import { type JsonObject, ownerComment } from "../../pkg/types/mod.ts"
import { lostBridge, type NodeAttachment, type NodeLink, recordedPlugins } from "../node/mod.ts"
import {
  affectedBy,
  bridgeOf,
  type Check,
  cniCommand,
  type DoctorInput,
  type Finding,
  linkOnHost,
  type Member,
  nameOf,
} from "./finding.ts"
import { type Command, giveAddress, inOneLine, localRoute, setSysctl, sh } from "./remedy.ts"

/** The nftables set of published ports that the host can reach at 127.0.0.1. */
const LOCALHOST = "ip cni_hostports localhost"

/** Finds bridges that were deleted or renamed, and host ends that are not ports of their bridge. */
export const checkBridges: Check = (input) =>
  input.attachments.flatMap((one): Finding[] => {
    const lost = lostBridge(one, input.node)
    if (!lost) return []
    const { bridge, isThere, end } = lost
    const about = {
      severity: "error" as const,
      network: one.network,
      affected: [affectedBy(one)],
      cause: `bridge ${bridge}`,
    }
    if (isThere) {
      return [
        {
          ...about,
          rule: "not-in-bridge",
          what: `"${end.name}", the host's end of ${nameOf(one)}, is not a port of bridge "${bridge}"`,
          ofMany: (count) => `the host's ends of ${count} containers are not ports of bridge "${bridge}"`,
          why: "the container reaches nothing",
          ...portRemedy(one, end, bridge, input, []),
        },
      ]
    }
    const renamed = renamedBridge(one, end, input)
    if (renamed !== undefined)
      return [
        {
          ...about,
          rule: "bridge-renamed",
          what: `bridge "${bridge}" was renamed to "${renamed}", but a container needs it: ${nameOf(one)}`,
          ofMany: (count) => `bridge "${bridge}" was renamed to "${renamed}", but ${count} containers need it`,
          why: "the next ADD creates a second bridge with the same gateway, and containers on different bridges cannot reach each other",
          remedy: sh`ip link set ${renamed} down; ip link set ${renamed} name ${bridge}; ip link set ${bridge} up`,
          note: "if an administrator added routes through the bridge, add them again",
        },
      ]
    return [
      {
        ...about,
        rule: "bridge-missing",
        what: `bridge "${bridge}" does not exist, but a container needs it: ${nameOf(one)}`,
        ofMany: (count) => `bridge "${bridge}" does not exist, but ${count} containers need it`,
        why: "the containers can neither send nor receive packets",
        ...portRemedy(one, end, bridge, input, [
          sh`ip link add ${bridge} up type bridge`,
          ...gatewaysOn(one, input).map(({ address, device }) => giveAddress(address, device)),
          // A new link has the kernel's default settings.
          ...(one.rules.some(({ place }) => place === LOCALHOST)
            ? [setSysctl(`net/ipv4/conf/${bridge}/route_localnet`, 1)]
            : []),
        ]),
      },
    ]
  })

/** Returns the new name of a renamed bridge: the bridge of the host end, if it has the container's gateway address. */
function renamedBridge(one: NodeAttachment, { master }: NodeLink, { node }: DoctorInput): string | undefined {
  const gateways = one.result?.ips.flatMap(({ gateway }) => gateway ?? []) ?? []
  const has = ({ addresses }: NodeLink) => addresses.some((each) => gateways.includes(each.split("/")[0] ?? ""))
  return node.links.find(
    (link) => link.nsid === undefined && link.index === master && link.kind === "bridge" && has(link),
  )?.name
}

/** Returns the commands that make a host end a bridge port, as ADD does, or `cni reattach` for a port with VLANs. */
function portRemedy(
  one: NodeAttachment,
  end: NodeLink,
  bridge: string,
  input: DoctorInput,
  before: readonly Command[],
): Pick<Finding, "remedy" | "note"> {
  const { vlan, vlanTrunk, hairpinMode, portIsolation } = bridgeKeysOf(one, input) ?? {}
  if (vlan || (Array.isArray(vlanTrunk) && vlanTrunk.length > 0)) {
    return {
      remedy: cniCommand(input, "reattach", [ownerComment(one)]),
      note: "this re-creates the containers' interfaces with the same addresses and VLANs",
    }
  }
  const flags = [
    ...(hairpinMode === true ? ["hairpin", "on"] : []),
    ...(portIsolation === true ? ["isolated", "on"] : []),
  ]
  const join = sh`ip link set ${end.name} master ${bridge}`
  const set = flags.length === 0 ? [] : [sh`ip link set ${end.name} type bridge_slave ${flags}`]
  return { remedy: inOneLine([...before, join, ...set]) }
}

/** Returns the configuration of the plugin bridge from the record of the ADD, or else from the network's file. */
function bridgeKeysOf({ cached, network }: NodeAttachment, { members }: DoctorInput): JsonObject | undefined {
  const own = members.find((member) => member.network === network && bridgeOf(member) !== undefined)?.raw
  return recordedPlugins(cached)?.find(({ type }) => type === "bridge")?.raw ?? own
}

/** Reports whether a plugin's configuration makes its bridge, or a VLAN on the bridge, the containers' gateway. */
export function isGateway(member: Member): boolean {
  return bridgeOf(member) !== undefined && (member.raw.isGateway === true || member.raw.isDefaultGateway === true)
}

/**
 * Returns the gateway addresses of a container that the host should have, with the container's prefix length. `device`
 * is the interface that should have them: the bridge, or the container's VLAN on it.
 */
export function gatewaysOn(one: NodeAttachment, input: DoctorInput): { address: string; device: string }[] {
  const raw = bridgeKeysOf(one, input)
  if (!raw || (raw.isGateway !== true && raw.isDefaultGateway !== true)) return []
  const bridge = typeof raw.bridge === "string" && raw.bridge !== "" ? raw.bridge : "cni0"
  const device = raw.vlan ? `${bridge}.${raw.vlan}` : bridge
  const ips = one.result?.ips ?? []
  return ips.flatMap(({ gateway, address }) =>
    gateway === undefined ? [] : [{ address: `${gateway}/${address.split("/")[1]}`, device }],
  )
}

/** Finds bridges that lack the address of their containers' gateway, or accept no packets for it. */
export const checkGateways: Check = (input) =>
  input.attachments.flatMap((one): Finding[] => {
    if (one.isAlive === false) return []
    return gatewaysOn(one, input).flatMap(({ address, device }): Finding[] => {
      const link = linkOnHost(input, device)
      const [gateway = ""] = address.split("/")
      if (!link) return []
      const held = link.addresses.some((each) => each.split("/")[0] === gateway)
      if (held) return isLocal(gateway, link, input) ? [] : [notLocal(one, gateway, device)]
      return [
        {
          rule: "gateway-missing",
          severity: "error",
          network: one.network,
          cause: `${gateway} of ${device}`,
          affected: [affectedBy(one)],
          what: `bridge "${device}" does not have ${gateway}, the containers' gateway`,
          ofMany: (count) => `bridge "${device}" does not have ${gateway}, the gateway of ${count} containers`,
          why: "containers cannot reach other networks",
          remedy: giveAddress(address, device),
          note: "the next ADD does the same",
          consequenceOf: ["ipv6-disabled", "bridge-missing"],
        },
      ]
    })
  })

/** Reports whether the host accepts packets for its address. True for a bridge in a VRF: other tables apply there. */
function isLocal(address: string, { master }: NodeLink, { hostTables }: DoctorInput): boolean {
  const answer = hostTables.routesTo.get(address)
  return answer === undefined || master !== undefined || (typeof answer === "object" && answer.type === RTN_LOCAL)
}

function notLocal(one: NodeAttachment, gateway: string, device: string): Finding {
  return {
    rule: "gateway-not-local",
    severity: "error",
    network: one.network,
    cause: `${gateway} of ${device}`,
    affected: [affectedBy(one)],
    what: `the host does not accept packets for ${gateway} of "${device}", the containers' gateway: its route is not in table local`,
    ofMany: (count) =>
      `the host does not accept packets for ${gateway} of "${device}", the gateway of ${count} containers: its route is not in table local`,
    why: "the gateway does not answer containers",
    remedy: localRoute(gateway, device),
    consequenceOf: ["host-main-table"],
  }
}
