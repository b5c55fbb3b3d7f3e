import type { NodeLink } from "../../node/mod.ts"
import { bridgeOf, bridgesOf, type Check, type Finding, nameOf, type Patient } from "./finding.ts"

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
    ...leftBridge(patient),
  ]
}

function leftBridge(patient: Patient): Finding[] {
  return patient.attachments.flatMap((one): Finding[] => {
    const name = patient.members.flatMap((member) =>
      member.network === one.network ? (bridgeOf(member) ?? []) : [],
    )[0]
    const bridge = name === undefined ? undefined : onHost(patient, name)
    const { link } = one
    if (!bridge || link?.nsid !== undefined || link?.kind !== "veth" || link.master === bridge.index) return []
    return [
      {
        rule: "not-in-bridge",
        severity: "error",
        network: one.network,
        what: `"${link.name}", the host's end of ${nameOf(one)}, is no port of bridge "${name}"`,
        why: "the container reaches nothing",
        remedy: `ip link set ${link.name} master ${name}`,
      },
    ]
  })
}

/** Bridges that have lost the address which is the containers' gateway. */
export const checkGateways: Check = (patient) => {
  const found = new Map<string, Finding>()
  for (const one of patient.attachments) {
    const member = patient.members.find((each) => each.network === one.network && bridgeOf(each) !== undefined)
    const bridge = member && onHost(patient, bridgeOf(member) ?? "")
    const isGateway = member?.raw.isGateway === true || member?.raw.isDefaultGateway === true
    if (!bridge || !isGateway || one.isAlive === false) continue
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
