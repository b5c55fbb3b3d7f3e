import { lostBridge, type NodeAttachment, type NodeLink } from "../node/mod.ts"
import { bridgeOf, bridgesOf, type Check, type Finding, type Member, nameOf, type Patient } from "./finding.ts"
import { localMappings } from "./inside.ts"

function onHost({ node }: Patient, name: string): NodeLink | undefined {
  return node.links.find((link) => link.nsid === undefined && link.name === name)
}

/** Bridges and hosts' ends that are down, or that are not connected any more. */
export const checkLinks: Check = (patient) => {
  const ends = patient.attachments.flatMap(({ link }) => (link && link.nsid === undefined ? [link] : []))
  const bridges = bridgesOf(patient).flatMap((name) => onHost(patient, name) ?? [])
  const down = [...bridges, ...ends].filter(({ isUp }) => !isUp)
  return [
    ...[...new Set(down)].map(
      ({ name }): Finding => ({
        rule: "link-down",
        severity: "error",
        what: `interface "${name}" is down`,
        why: "nothing passes it",
        remedy: `ip link set ${name} up`,
      }),
    ),
    ...lostBridges(patient),
  ]
}

/** Bridges that were deleted, once for all their containers, and hosts' ends that are no ports of their bridge. */
function lostBridges(patient: Patient): Finding[] {
  const { node, attachments } = patient
  const lost = attachments.flatMap((one) => {
    const found = lostBridge(one, node)
    return found ? [{ one, ...found }] : []
  })
  const left = lost.filter(({ isThere }) => isThere)
  const deleted = Map.groupBy(
    lost.filter(({ isThere }) => !isThere),
    ({ bridge }) => bridge,
  )
  return [
    ...[...deleted].map(([bridge, users]): Finding => {
      const ends = users.map(({ end }) => end.name)
      const gateways = new Set(users.flatMap(({ one }) => gatewaysOf(one, patient)))
      const commands = [
        `ip link add ${bridge} up type bridge`,
        ...[...gateways].map((gateway) => `ip address add ${gateway} dev ${bridge}`),
        `for end in ${ends.join(" ")}; do ip link set $end master ${bridge}; done`,
        ...(isLocal(
          users.map(({ one }) => one),
          patient,
        )
          ? [`sysctl -w net/ipv4/conf/${bridge}/route_localnet=1`]
          : []),
      ]
      const containers = users.length === 1 ? "a container lives" : `${users.length} containers live`
      return {
        rule: "bridge-missing",
        severity: "error",
        network: users[0]?.one.network ?? "",
        what: `bridge "${bridge}" is not there, and ${containers} by it: ${someOf(users.map(({ one }) => nameOf(one)))}`,
        why: "the containers reach nothing, and nothing reaches them",
        remedy: `${commands.join("; ")} (keys of ports, such as hairpinMode and vlan, come back when the containers are attached anew)`,
      }
    }),
    ...left.map(
      ({ one, bridge, end }): Finding => ({
        rule: "not-in-bridge",
        severity: "error",
        network: one.network,
        what: `"${end.name}", the host's end of ${nameOf(one)}, is no port of bridge "${bridge}"`,
        why: "the container reaches nothing",
        remedy: `ip link set ${end.name} master ${bridge}`,
      }),
    ),
  ]
}

/** Whether ports of 127.0.0.1 lead to some of the attachments. */
function isLocal(attachments: readonly NodeAttachment[], { examined }: Patient): boolean {
  return examined.some((each) => attachments.includes(each.one) && localMappings(each).length > 0)
}

/** The addresses that the bridge has as the gateway of a container, with the prefix length of the container's own. */
function gatewaysOf({ network, result }: NodeAttachment, { members }: Patient): string[] {
  if (!members.some((member) => member.network === network && isGateway(member))) return []
  return result?.ips.flatMap(({ gateway, address }) => (gateway ? [`${gateway}/${address.split("/")[1]}`] : [])) ?? []
}

/** Whether the bridge has the gateway's address. */
export function isGateway(member: Member): boolean {
  return bridgeOf(member) !== undefined && (member.raw.isGateway === true || member.raw.isDefaultGateway === true)
}

/** Three examples of many. */
function someOf(names: readonly string[]): string {
  const shown = names.slice(0, 3).join(", ")
  return names.length > 3 ? `${shown} and ${names.length - 3} more` : shown
}

/** Bridges that have lost the address which is the containers' gateway. */
export const checkGateways: Check = (patient) => {
  const found = new Map<string, Finding>()
  for (const one of patient.attachments) {
    const member = patient.members.find((each) => each.network === one.network && bridgeOf(each) !== undefined)
    const bridge = member && onHost(patient, bridgeOf(member) ?? "")
    if (!bridge || !isGateway(member) || one.isAlive === false) continue
    const gateways = one.result?.ips.flatMap(({ gateway }) => gateway ?? []) ?? []
    const missing = gateways.find((gateway) => !bridge.addresses.some((address) => address.split("/")[0] === gateway))
    if (missing === undefined) continue
    found.set(missing, {
      rule: "gateway-missing",
      severity: "error",
      network: one.network,
      what: `bridge "${bridge.name}" does not have ${missing}, the containers' gateway`,
      why: "containers reach nothing beyond their network",
      remedy: `ip address add ${missing}/PREFIX dev ${bridge.name}; the next ADD does it, too`,
    })
  }
  return [...found.values()]
}

/** Sizes of packets that do not go together. */
export const checkMtu: Check = (patient) => {
  const uplink = patient.node.routes.find(({ dst, dev }) => dst === "0.0.0.0/0" && dev !== undefined)?.dev
  const out = uplink === undefined ? undefined : onHost(patient, uplink)
  return bridgesOf(patient).flatMap((name): Finding[] => {
    const bridge = onHost(patient, name)
    if (!bridge) return []
    const ports = patient.node.links.filter(({ nsid, master }) => nsid === undefined && master === bridge.index)
    const odd = ports.filter(({ mtu }) => mtu !== bridge.mtu)
    const found: Finding[] = []
    if (odd.length > 0) {
      found.push({
        rule: "mtu-mismatch",
        severity: "warning",
        what: `bridge "${name}" has MTU ${bridge.mtu}, and its port ${odd.map((port) => `"${port.name}" ${port.mtu}`).join(", ")}`,
        why: "large packets between these containers are dropped, while small ones such as pings pass",
        remedy: `set "mtu" in the network's configuration; now: ip link set ${odd[0]?.name} mtu ${bridge.mtu}`,
      })
    }
    if (out && bridge.mtu > out.mtu) {
      found.push({
        rule: "mtu-uplink",
        severity: "warning",
        what: `bridge "${name}" has MTU ${bridge.mtu}, and "${out.name}", by which its containers go out, ${out.mtu}`,
        why: "connections hang where ICMP that asks for smaller packets is filtered",
        remedy: `set "mtu": ${out.mtu} in the network's configuration`,
      })
    }
    return found
  })
}
