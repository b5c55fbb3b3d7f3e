import type { NodeAttachment, NodeLink, PortSetting } from "../node/mod.ts"
import { affectedBy, bridgesOf, type Check, type Finding, linkOnHost, nameOf } from "./finding.ts"
import { ofOthers, sh } from "./remedy.ts"

/**
 * States in which a bridge port drops all frames: BR_STATE_*, <linux/if_bridge.h>. The list omits listening (1) and
 * learning (2), which the spanning tree protocol leaves after seconds.
 */
const CLOSED: Readonly<Record<number, string>> = { 0: "disabled", 4: "blocking" }

/** Finds containers' bridge ports that drop all frames, lack hairpin mode, or have another harmful setting. */
export const checkPorts: Check = ({ examined, node }) =>
  examined.flatMap(({ one, plugins }): Finding[] => {
    const end = one.link
    if (end === undefined || end.nsid !== undefined || !end.isUp || end.state !== "up") return []
    const { port } = end
    if (port === undefined) return []
    const bridge = node.links.find(({ index, nsid }) => nsid === undefined && index === end.master)
    if (!bridge?.isUp) return [] // a bridge that is down disables its ports: the finding link-down
    const { state, isIsolated, isHairpin } = port
    const closed = CLOSED[state]
    const about = { network: one.network, cause: `ports of network ${one.network}`, affected: [affectedBy(one)] }
    if (closed !== undefined)
      return [
        {
          ...about,
          rule: "port-state",
          severity: "error",
          what: `the bridge's port "${end.name}" of ${nameOf(one)} is in state ${closed}`,
          ofMany: (count) => `${count} ports of containers are in state ${closed}`,
          why: "the bridge drops all frames from and to the container",
          remedy: sh`bridge link set dev ${end.name} state 3`,
        },
      ]
    const asks = (key: "hairpinMode" | "portIsolation") =>
      plugins.some(({ type, raw }) => type === "bridge" && raw[key] === true)
    const found: Finding[] = []
    if (asks("hairpinMode") && !isHairpin)
      found.push({
        ...about,
        rule: "hairpin-off",
        severity: "warning",
        what: `the bridge's port "${end.name}" of ${nameOf(one)} has hairpin off, but its network sets "hairpinMode"`,
        ofMany: (count) => `${count} ports of containers have hairpin off, but their network sets "hairpinMode"`,
        why: "the container cannot reach itself through its own published port or Service",
        remedy: sh`bridge link set dev ${end.name} hairpin on`,
        consequenceOf: ["not-in-bridge"], // the command of that finding also sets hairpin mode
      })
    if (isIsolated && !asks("portIsolation"))
      found.push({
        ...about,
        rule: "port-isolated",
        severity: "warning",
        what: `the bridge's port "${end.name}" of ${nameOf(one)} is isolated, but its network does not set "portIsolation"`,
        ofMany: (count) => `${count} ports of containers are isolated, but their network does not set "portIsolation"`,
        why: "containers on isolated ports cannot reach each other",
        remedy: sh`bridge link set dev ${end.name} isolated off`,
      })
    return [...found, ...settingsOf(one, end.name, port)]
  })

/** A bridge port setting that harms a container, and its consequence. */
interface WrongSetting {
  readonly setting: PortSetting
  readonly isOn: boolean
  readonly why: string
  /** Whether the setting disconnects the container instead of only degrading its traffic. */
  readonly cutsOff?: boolean
}

const wrongSettings: readonly WrongSetting[] = [
  {
    setting: "locked",
    isOn: true,
    cutsOff: true,
    why: "the bridge drops packets from the container, unless an administrator entered its MAC",
  },
  {
    setting: "bcast_flood",
    isOn: false,
    cutsOff: true,
    why: "ARP requests of other containers do not reach the container: they cannot find it once its MAC leaves their neighbor caches",
  },
  {
    setting: "mcast_flood",
    isOn: false,
    cutsOff: true,
    why: "neighbor solicitations of other containers do not reach the container: they cannot find its IPv6 address once its MAC leaves their neighbor caches",
  },
  {
    setting: "flood",
    isOn: false,
    why: "packets from other containers to this container are dropped once its MAC has left the bridge's forwarding database",
  },
  { setting: "learning", isOn: false, why: "the bridge sends all frames for the container to all ports" },
]

/** Returns findings about port settings that no plugin sets and that disconnect a container or degrade its traffic. */
function settingsOf(one: NodeAttachment, name: string, port: NonNullable<NodeLink["port"]>): Finding[] {
  const hasIpv6 = one.addresses.some((address) => address.includes(":"))
  const wrong = wrongSettings.filter(
    ({ setting, isOn }) => port.settings[setting] === isOn && (setting !== "mcast_flood" || hasIpv6),
  )
  const [first] = wrong
  if (first === undefined) return []
  const shown = wrong.map(({ setting, isOn }) => `${setting} ${isOn ? "on" : "off"}`).join(", ")
  const isDeaf = ["flood", "learning"].every((each) => wrong.some(({ setting }) => setting === each))
  const remedied = wrong.flatMap(({ setting, isOn }) => [setting, isOn ? "off" : "on"])
  return [
    {
      rule: "port-setting",
      severity: isDeaf || wrong.some(({ cutsOff }) => cutsOff) ? "error" : "warning",
      network: one.network,
      cause: `ports of network ${one.network}: ${shown}`,
      affected: [affectedBy(one)],
      what: `the bridge's port "${name}" of ${nameOf(one)} has ${shown}`,
      ofMany: (count) => `${count} ports of containers have ${shown}`,
      why: isDeaf ? "no packet reaches the container: the bridge learns no MAC at the port" : first.why,
      remedy: sh`bridge link set dev ${name} ${remedied}`,
    },
  ]
}

/**
 * Finds bridges that run the spanning tree protocol although all of their ports are containers' ports. There, a new
 * port drops all frames for twice the forward delay.
 */
export const checkSpanningTree: Check = (input) => {
  const { attachments, node } = input
  const ends = new Set(attachments.flatMap(({ link }) => (link?.nsid === undefined ? (link?.index ?? []) : [])))
  return bridgesOf(input).flatMap((name): Finding[] => {
    const bridge = linkOnHost(input, name)
    const ports = node.links.filter(({ nsid, master }) => nsid === undefined && master === bridge?.index)
    if (!bridge?.hasStp || ports.some(({ index }) => !ends.has(index))) return []
    return [
      {
        rule: "bridge-stp",
        severity: "warning",
        affected: attachments.filter(({ link }) => link?.master === bridge.index).map(affectedBy),
        what: `bridge "${name}" runs the spanning tree protocol (STP), but all of its ports are containers' ports`,
        ofMany: (count) =>
          `bridge "${name}" runs the spanning tree protocol (STP), but all of its ports belong to ${count} containers`,
        why: "a new container's port drops all frames for 30 s after its ADD",
        remedy: sh`ip link set ${name} type bridge stp_state 0`,
      },
    ]
  })
}

/** Finds bridges without their own MAC in the forwarding database: they flood frames for it, and accept none. */
export const checkOwnMac: Check = ({ examined, hostTables, node }) =>
  examined.flatMap(({ one }): Finding[] => {
    const bridge = node.links.find(({ index, nsid }) => nsid === undefined && index === one.link?.master)
    if (!bridge?.isUp || one.link?.nsid !== undefined || !hostTables.deafBridges.has(bridge.index)) return []
    const { name, mac } = bridge
    return [
      {
        rule: "bridge-mac-lost",
        severity: "error",
        network: one.network,
        cause: `bridge ${name}`,
        affected: [affectedBy(one)],
        what: `bridge "${name}" of ${nameOf(one)} does not accept frames for its own MAC, ${mac}: its forwarding database has no such local entry`,
        ofMany: (count) =>
          `bridge "${name}" of ${count} containers does not accept frames for its own MAC, ${mac}: its forwarding database has no such local entry`,
        why: "containers can reach neither their gateway nor other networks",
        remedy: sh`bridge fdb replace ${mac} dev ${name} self local`,
        note: "bridge fdb flush deletes the bridge's own entries too",
      },
    ]
  })

/** Finds permanent forwarding entries that send frames for a container's MAC to another port or to the host. */
export const checkFixedEntries: Check = ({ examined, hostTables, node }) => {
  const byMac = new Map(
    [...hostTables.fixedEntries].map(([bridge, entries]) => [bridge, Map.groupBy(entries, ({ mac }) => mac)] as const),
  )
  return examined.flatMap(({ one, interfaces }) =>
    interfaces.flatMap(({ name: ifName, link }): Finding[] => {
      const end = one.link
      if (end?.master === undefined || end.nsid !== undefined || link?.kind !== "veth") return []
      const entries = byMac.get(end.master)?.get(link.mac)
      const wrong = entries?.find(({ index, isLocal }) => isLocal || index !== end.index)
      if (wrong === undefined) return []
      const bridge = node.links.find(({ index, nsid }) => nsid === undefined && index === end.master)?.name
      const at = node.links.find(({ index, nsid }) => nsid === undefined && index === wrong.index)?.name
      if (bridge === undefined || at === undefined) return []
      const to = wrong.isLocal ? "the host itself" : `port "${at}"`
      return [
        {
          rule: "bridge-entry-wrong",
          severity: "error",
          network: one.network,
          affected: [affectedBy(one)],
          what: `bridge "${bridge}" has a static entry that sends frames for ${wrong.mac}, the MAC of "${ifName}" of ${nameOf(one)}, to ${to}`,
          why: "packets for the container do not reach it",
          remedy: ofOthers("change the entry to the container's port", sh`bridge fdb get ${wrong.mac} br ${bridge}`),
        },
      ]
    }),
  )
}
