import type { NodeAttachment, NodeLink } from "../node/mod.ts"
import { affectedBy, bridgesOf, type Check, type DoctorInput, type Finding, linkOnHost } from "./finding.ts"
import { type Command, inOneLine, sh } from "./remedy.ts"

/** Finds bridges and host ends that are down, and a host loopback that is down. */
export const checkLinks: Check = (input) => [...downBridges(input), ...downEnds(input), ...downLoopback(input)]

function downLoopback(input: DoctorInput): Finding[] {
  if (input.attachments.length === 0 || linkOnHost(input, "lo")?.isUp !== false) return []
  return [
    {
      rule: "link-down",
      severity: "error",
      cause: "loopback",
      what: 'interface "lo" of the host is down',
      why: "the host can reach neither its own addresses nor container ports published at these addresses",
      remedy: sh`ip link set lo up`,
    },
  ]
}

function downBridges(input: DoctorInput): Finding[] {
  return bridgesOf(input).flatMap((name): Finding[] => {
    const bridge = linkOnHost(input, name)
    if (!bridge || bridge.isUp) return []
    const users = input.attachments.filter(({ link }) => link?.nsid === undefined && link?.master === bridge.index)
    return [
      {
        rule: "link-down",
        severity: "error",
        cause: `bridge ${name}`,
        affected: users.map(affectedBy),
        what: `interface "${name}" is down`,
        ofMany: (count) => `interface "${name}", the bridge of ${count} containers, is down`,
        why: "no packet passes it",
        remedy: sh`ip link set ${name} up`,
      },
    ]
  })
}

function downEnds({ attachments }: DoctorInput): Finding[] {
  return attachments.flatMap((one): Finding[] => {
    const { link, network } = one
    if (!link || link.nsid !== undefined || link.isUp) return []
    return [
      {
        rule: "link-down",
        severity: "error",
        cause: "ends",
        affected: [affectedBy(one)],
        what: `interface "${link.name}" is down`,
        ofMany: (count) => `the host's ends of ${count} containers are down`,
        network,
        why: "no packet passes it",
        remedy: sh`ip link set ${link.name} up`,
      },
    ]
  })
}

/** Finds bridge ports with another MTU than their bridge, and bridges with a larger MTU than the uplink. */
export const checkMtu: Check = (input) => {
  const uplink = input.node.routes.find(({ dst, dev }) => dst === "0.0.0.0/0" && dev !== undefined)?.dev
  const out = uplink === undefined ? undefined : linkOnHost(input, uplink)
  return bridgesOf(input).flatMap((name): Finding[] => {
    const bridge = linkOnHost(input, name)
    if (!bridge) return []
    const ports = input.node.links.filter(({ nsid, master }) => nsid === undefined && master === bridge.index)
    const odd = ports.filter(({ mtu }) => mtu !== bridge.mtu).map((port) => oddPort(bridge, port, input))
    if (!out || bridge.mtu <= out.mtu) return odd
    const file = fileOf(name, input)
    const set = (port: NodeLink) => setMtu(port, out.mtu, input)
    return [
      ...odd,
      {
        rule: "mtu-uplink",
        severity: "warning",
        cause: `bridge ${name}`,
        affected: ports.map((port) => affectedPort(port, input)),
        what: `bridge "${name}" has MTU ${bridge.mtu}, but "${out.name}", the uplink of its containers, has ${out.mtu}`,
        ofMany: (count) =>
          `bridge "${name}" of ${count} containers has MTU ${bridge.mtu}, but "${out.name}", their uplink, has ${out.mtu}`,
        why: "connections hang if a firewall drops the ICMP messages of path MTU discovery",
        remedy: inOneLine([sh`ip link set ${name} mtu ${out.mtu}`, ...ports.map(set)]),
        note: `for future containers, set "mtu": ${out.mtu} in ${file}`,
      },
    ]
  })
}

function oddPort(bridge: NodeLink, port: NodeLink, input: DoctorInput): Finding {
  const { name, mtu } = bridge
  return {
    rule: "mtu-mismatch",
    severity: "warning",
    cause: `bridge ${name}`,
    affected: [affectedPort(port, input)],
    what: `bridge "${name}" has MTU ${mtu}, but its port "${port.name}" has ${port.mtu}`,
    ofMany: (count) => `bridge "${name}" has MTU ${mtu}, but ${count} of its ports have other MTUs`,
    why: "large packets between these containers are dropped, while small ones such as pings pass",
    remedy: setMtu(port, mtu, input),
    note: `for future containers, set "mtu" in ${fileOf(name, input)}`,
  }
}

function attachmentAt(port: NodeLink, { attachments }: DoctorInput): NodeAttachment | undefined {
  return attachments.find(({ link }) => link?.nsid === undefined && link?.index === port.index)
}

function affectedPort(port: NodeLink, input: DoctorInput) {
  const one = attachmentAt(port, input)
  return one ? affectedBy(one) : { name: `"${port.name}"` }
}

/** Returns the command that sets the MTU of both ends of a pair, because each end drops packets above its own MTU. */
function setMtu(port: NodeLink, mtu: number, input: DoctorInput): Command {
  const { netns, ifName = "" } = attachmentAt(port, input) ?? {}
  const outside = sh`ip link set ${port.name} mtu ${mtu}`
  return netns === undefined
    ? outside
    : inOneLine([outside, sh`nsenter --net=${netns} ip link set ${ifName} mtu ${mtu}`])
}

function fileOf(bridge: string, { node }: DoctorInput): string {
  const isNamed = (raw: { bridge?: unknown }) => (raw.bridge || "cni0") === bridge
  const found = node.networks.find(({ network }) =>
    network?.plugins.some(({ type, raw }) => type === "bridge" && isNamed(raw)),
  )
  return found?.file ?? "the network's configuration"
}
