import { exists, readTextFile } from "../../pkg/libc/mod.ts"
import type { JsonObject } from "../../pkg/types/mod.ts"
import type {
  FilterView,
  HostTables,
  Inside,
  Node,
  NodeAttachment,
  NodeLink,
  NotInside,
  TrafficFilter,
} from "../node/mod.ts"
import type { PluginBinary } from "./binaries.ts"
import type { Examined } from "./inside.ts"
import type { FindingName } from "./names.ts"
import { type Command, sh } from "./remedy.ts"

/**
 * One thing that is wrong with a node.
 *
 * A check returns a finding for each object that it finds at fault and names the `cause`; findings with one `rule` and one `cause`
 * become one (causes.ts): their `affected` objects are listed together and counted, their commands become a loop.
 *
 * @example
 * // 250 containers whose masquerade is gone are one finding, since all name one table as the cause:
 * {
 *   rule: "missing-masquerade", severity: "error", network: one.network,
 *   cause: "table ip cni_masquerade",
 *   affected: [affectedBy(one)],
 *   what: `there is no masquerade for ${nameOf(one)}`,
 *   ofMany: (count) => `table ip cni_masquerade is not there: ${count} containers have no masquerade`,
 *   why: "what it sends leaves with an address that no host outside can answer",
 *   remedy: sh`podman network reload --all`,
 *   consequenceOf: ["bridge-missing"],
 * }
 */
export interface Finding {
  readonly rule: FindingName
  /** "error": something does not work, or will not. "warning": it works, and something is not as it should be. */
  readonly severity: "error" | "warning"
  /** The network that it is about, if it is about one. */
  readonly network?: string
  /**
   * The object that has to be mended, which several affected ones have in common: "bridge cni0", "table ip cni_masquerade",
   * "net/ipv4/ip_forward". Without one the finding stands alone.
   */
  readonly cause?: string
  /** The objects that the fault concerns: mostly attachments, by `affectedBy`. */
  readonly affected?: readonly Affected[]
  /** The fault, with names. */
  readonly what: string
  /** The fault where several objects are affected, without their names: three of these, or all, are written behind it. */
  readonly ofMany?: (count: number) => string
  /** The consequence. */
  readonly why: string
  /** The remedy: a command that can be pasted, made by `sh`, or words where no command mends it. */
  readonly remedy: string | Command
  /** What has to be known of the command, in words. */
  readonly note?: string
  /** Whether `--fix` deletes the affected attachments: only those whose container is provably gone. */
  readonly isFixable?: boolean
  /**
   * Rules of which this one would be a mere consequence: an object that a finding of these rules affects, or every object where that
   * finding concerns the node as a whole, is taken out of this finding.
   */
  readonly consequenceOf?: readonly FindingName[]
}

/** An object that a fault concerns. */
export interface Affected {
  /** As messages name it: an attachment by `nameOf`, a link or a file by its name in quotes. */
  readonly name: string
  readonly attachment?: NodeAttachment
  /** The part of the object that is concerned, which is written behind its name: "ports 8080/tcp, 8443/tcp". Made by `someOf`. */
  readonly detail?: string
}

/** The input of the checks. */
export interface Patient {
  readonly node: Node
  readonly attachments: readonly NodeAttachment[]
  /** The namespaces of containers that live, by their paths. */
  readonly insides: ReadonlyMap<string, Inside | NotInside>
  /** The attachments beside what their namespaces have. */
  readonly examined: readonly Examined[]
  /** How the host sends to the containers' addresses. */
  readonly hostTables: HostTables
  /** All rules of the packet filter; undefined where it cannot be seen. */
  readonly filter: FilterView | undefined
  /** The filters of traffic control at containers' ends and bridges that take packets off their way; undefined where they cannot be seen. */
  readonly traffic: readonly TrafficFilter[] | undefined
  /** A network's plugins, of its file and, of networks that are used, of the cache: each configuration once. */
  readonly members: readonly Member[]
  /** A plugin's executable in the directories of plugins, which is asked for its version once; undefined where it is in none. */
  plugin(type: string): PluginBinary | undefined
  /** Whether `cni install` of this tool would succeed in a directory. */
  canInstall(directory: string, adopt: boolean): boolean
  /** The flags that say where the node's files are, as they were given: for commands of the tool in remedies. */
  readonly flags: readonly string[]
  /** A value below /proc/sys in this namespace; `undefined` when it does not exist. */
  sysctl(path: string): string | undefined
}

/** A plugin in a network. */
export interface Member {
  readonly network: string
  readonly type: string
  readonly raw: JsonObject
}

/** Looks at one subject. Changes nothing, and never throws for what is not there. */
export type Check = (patient: Patient) => Finding[]

/** Reads a value below /proc/sys in this namespace; undefined where the kernel has none. */
export function readSysctl(path: string): string | undefined {
  try {
    return readTextFile(`/proc/sys/${path}`).trim()
  } catch {
    return undefined
  }
}

/** The host's link of a name. */
export function linkOnHost({ node }: Patient, name: string): NodeLink | undefined {
  return node.links.find((link) => link.nsid === undefined && link.name === name)
}

/** The bridge that a configuration of the plugin bridge names. */
export function bridgeOf({ type, raw }: Member): string | undefined {
  if (type !== "bridge") return undefined
  return typeof raw.bridge === "string" && raw.bridge !== "" ? raw.bridge : "cni0"
}

/** The bridges of a node's networks, each once. */
export function bridgesOf({ members }: Pick<Patient, "members">): string[] {
  return [...new Set(members.flatMap((member) => bridgeOf(member) ?? []))]
}

/** The interfaces on the host by which packets of containers come: bridges that are there, their VLANs, and ends of pairs. */
export function containerLinks(patient: Pick<Patient, "node" | "attachments" | "members">): string[] {
  const bridges = new Set(bridgesOf(patient))
  const isVlan = (name: string) => name.includes(".") && bridges.has(name.replace(/\.\d+$/, "")) // "cni0.100" is VLAN 100 of cni0
  const isOfBridge = (name: string) => bridges.has(name) || isVlan(name)
  const own = patient.node.links.filter(({ name, nsid }) => nsid === undefined && isOfBridge(name))
  const ends = patient.attachments.flatMap(({ link }) => (link?.nsid === undefined ? (link?.name ?? []) : []))
  return [...new Set([...own.map(({ name }) => name), ...ends])]
}

/** Those of them that packets are routed by: not the ports of a bridge, whose IPv4 settings the kernel never asks. */
export function routedLinks(patient: Patient): string[] {
  const { links } = patient.node
  const onHost = links.filter(({ nsid }) => nsid === undefined)
  const bridges = new Set(onHost.filter(({ kind }) => kind === "bridge").map(({ index }) => index as number))
  const ofAttachments = patient.attachments.flatMap(({ link }) => link ?? [])
  const byName = new Map([...ofAttachments, ...onHost].map((link) => [link.name, link]))
  const isPort = (name: string) => {
    const master = byName.get(name)?.master
    return master !== undefined && bridges.has(master)
  }
  return containerLinks(patient).filter((name) => !isPort(name))
}

/** The name of an attachment in messages. */
export function nameOf({ network, containerId, ifName, pod }: NodeAttachment): string {
  const whose = pod === undefined ? "" : ` (pod ${[pod.namespace, pod.name].filter((part) => part).join("/")})`
  return `"${network}/${containerId}${ifName === "" ? "" : `/${ifName}`}"${whose}`
}

/** An attachment, as an object that a fault concerns. */
export function affectedBy(attachment: NodeAttachment): Affected {
  return { name: nameOf(attachment), attachment }
}

/** The parts of one object that a finding names; a container may have thousands. */
const SOME = 5

/** Some of a list, in words: "port 8080/tcp", "ports 8080/tcp, 8443/tcp and 3 more". */
export function someOf(noun: string, list: readonly string[]): string {
  const more = list.length > SOME ? ` and ${list.length - SOME} more` : ""
  return `${noun}${list.length === 1 ? "" : "s"} ${list.slice(0, SOME).join(", ")}${more}`
}

/** A command of this tool, with the flags by which doctor found the node's files. */
export function cniCommand(
  { flags }: Pick<Patient, "flags">,
  verb: string,
  words: readonly string[],
  own: readonly string[] = [],
): Command {
  const before = [verb, ...(verb === "reconcile" ? withoutConfDir(flags) : flags), ...own]
  return words.length > 0 ? sh`cni ${before} ${words}` : sh`cni ${before}`
}

/** What was attached is in the cache alone. */
function withoutConfDir(flags: readonly string[]): string[] {
  return flags.filter((_, at) => flags[at] !== "--conf-dir" && flags[at - 1] !== "--conf-dir")
}

/** The command that installs the plugins of this suite into a directory; words where it would fail when pasted here. */
export function installCommand({ canInstall }: Patient, directory: string, adopt = false): Command | string {
  if (!canInstall(directory, adopt))
    return `install the plugins into ${directory} by "cni install" of their archive or package: beside this tool they are incomplete, or others placed files there`
  if (adopt) return sh`cni install --bin-dir ${directory} --adopt`
  return exists(directory)
    ? sh`cni install --bin-dir ${directory}`
    : sh`mkdir -p ${directory}; cni install --bin-dir ${directory}`
}
