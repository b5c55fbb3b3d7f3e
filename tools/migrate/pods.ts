import { listAccepted } from "../../meta/firewall/main.ts"
import { PacketFilter } from "../../pkg/nftables/mod.ts"
import { hostCidr, member, type Owner, ownerComment, parseIp } from "../../pkg/types/mod.ts"
import { describedPlugins } from "../../suite/plugins.ts"
import {
  attachmentsOf,
  ipamOf,
  type NameOf,
  type Node,
  type NodeAttachment,
  namesOfFiles,
  recordedPlugins,
} from "../node/mod.ts"

/** The packet filter that contains rules of a pod. During the switch back, it can be "both". */
export type Place = "iptables" | "nftables" | "both"

/** An attachment of a container that runs or may run, with its objects on the host. */
export interface MigratingPod extends Owner {
  /** The pod's "namespace/name" in Kubernetes, or else the container's ID. */
  readonly title: string
  readonly netns?: string
  readonly addresses: readonly string[]
  /** The plugins of the network at ADD, including IPAM plugins. Empty without a cache record. */
  readonly plugins: readonly string[]
  /** The specification's version that the runtime used for ADD and will use for DEL. Undefined without a record. */
  readonly cniVersion?: string
  /** The suite that created the attachment. Only this suite's links and rules name their owner. */
  readonly madeBy: "this suite" | "another suite"
  readonly masquerade?: Place
  readonly ports: readonly string[]
  readonly portsBy?: Place
  readonly firewall?: Place
  /** Whether nf_tables checks the source MACs of the pod's bridge port. */
  readonly isGuarded: boolean
  /** The bridge whose port is the host's end. */
  readonly bridge?: string
  /** The host-local stores with an address of the pod. */
  readonly stores: readonly string[]
}

/** This suite's tables, by purpose. */
const TABLES = { masquerade: "cni_masquerade", portsBy: "cni_hostports", firewall: "cni_firewall" } as const

/** Returns the nf_tables table of a plugin whose rules can also be in iptables, or undefined for other plugins. */
export function tableOf(type: string): string | undefined {
  if (type === "portmap") return TABLES.portsBy
  if (type === "firewall") return TABLES.firewall
  return describedPlugins.find(({ name }) => name === type)?.kind === "interface" ? TABLES.masquerade : undefined
}

/** Reports whether an attachment has rules in a table of this suite, such as "cni_masquerade". */
export function isInTable({ rules }: Pick<NodeAttachment, "rules">, table: string): boolean {
  return rules.some(({ backend, place }) => backend === "nftables" && place.split(" ")[1] === table)
}

/** Returns the attachments of containers that may still exist, with their objects. Throws `NetlinkError`. */
export function podsOf(node: Node): MigratingPod[] {
  const accepted = acceptedByIptables()
  const living = attachmentsOf(node).filter(({ ifName, isAlive, cached, link }) => {
    const isThere = isAlive ?? (cached !== undefined || link !== undefined)
    return ifName !== "" && ifName !== "lo" && isThere
  })
  return living.map((one) => podOf(one, node, accepted))
}

/** Returns the addresses that rules of iptables accept. Returns none without permission to read them. */
function acceptedByIptables(): ReadonlySet<string> {
  using filter = PacketFilter.find()
  return new Set(listAccepted(filter?.socket))
}

function podOf(one: NodeAttachment, node: Node, accepted: ReadonlySet<string>): MigratingPod {
  const { network, containerId, ifName, netns, addresses, ports, unservedPorts, rules, pod, link } = one
  const inIptables = (chain: RegExp) => rules.some(({ backend, place }) => backend === "iptables" && chain.test(place))
  const portsBy = placeOf(inIptables(/ nat CNI-(DN|HOSTPORT)/), isInTable(one, TABLES.portsBy))
  const sources = addresses.flatMap((address) => sourceOf(address) ?? [])
  const found = {
    netns,
    cniVersion: versionOfAdd(one),
    masquerade: placeOf(inIptables(/ nat (POSTROUTING|CNI-[0-9a-f]{24})$/), isInTable(one, TABLES.masquerade)),
    portsBy,
    firewall: placeOf(
      sources.some((source) => accepted.has(source)),
      isInTable(one, TABLES.firewall),
    ),
    bridge: node.links.find(({ index, nsid, kind }) => {
      return nsid === undefined && kind === "bridge" && index === link?.master
    })?.name,
  }
  return {
    ...{ network, containerId, ifName, addresses },
    title: pod ? [pod.namespace, pod.name].filter(Boolean).join("/") : containerId,
    plugins: pluginsOf(one, namesOfFiles(node.places.binDirs)),
    madeBy: isOurs(one) ? "this suite" : "another suite",
    ports: portsBy === undefined ? unservedPorts : ports,
    isGuarded: isInTable(one, "cni_spoofcheck"),
    stores: storesOf(one, node),
    ...(Object.fromEntries(Object.entries(found).filter(([, value]) => value !== undefined)) as Partial<MigratingPod>),
  }
}

function placeOf(isInIptables: boolean, isInNftables: boolean): Place | undefined {
  if (isInIptables && isInNftables) return "both"
  return isInIptables ? "iptables" : isInNftables ? "nftables" : undefined
}

/** Returns the source in a rule about an address: "10.1.0.2/32" for "10.1.0.2/16". */
function sourceOf(address: string): string | undefined {
  const [text = ""] = address.split("/")
  const ip = parseIp(text)
  return ip && hostCidr(ip)
}

function isOurs(one: NodeAttachment): boolean {
  const mark = ownerComment(one)
  const isMarked = one.rules.some(({ backend, place, owner }) => {
    return backend === "nftables" ? / cni_(masquerade|hostports|firewall|spoofcheck) /.test(place) : owner === mark
  })
  return isMarked || one.link?.alias === mark
}

/** Returns the version in ADD's result, because libraries differ in which version of a network list they choose. */
function versionOfAdd({ cached }: NodeAttachment): string | undefined {
  const version = cached?.result && member(cached.result, "cniVersion")
  return typeof version === "string" ? version : undefined
}

function pluginsOf({ cached }: NodeAttachment, nameOf: NameOf): string[] {
  const types = (recordedPlugins(cached) ?? []).flatMap(({ type, raw }) => {
    const ipam = ipamOf(raw)
    const of = ipam && member(ipam, "type")
    return [type, ...(typeof of === "string" && of !== "" ? [nameOf(of)] : [])]
  })
  return [...new Set(types)]
}

function storesOf({ network, containerId, ifName }: Owner, { stores }: Node): string[] {
  const holds = (holder: Node["stores"][number]["leases"][number]["holder"]) =>
    typeof holder !== "string" && holder.containerId === containerId && [ifName, ""].includes(holder.ifName)
  return stores
    .filter((store) => store.network === network && store.leases.some(({ holder }) => holds(holder)))
    .map(({ directory }) => directory)
}
