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
 * A fault of a node.
 *
 * A check returns a finding for each affected object, and names the `cause` that several of them may share. Findings
 * with the same `rule` and `cause` are joined (causes.ts): their `affected` objects are listed together and counted,
 * and their commands become a loop.
 *
 * @example
 * // 250 containers without masquerade are one finding, because all name one table as the cause:
 * {
 *   rule: "missing-masquerade", severity: "error", network: one.network,
 *   cause: "table ip cni_masquerade",
 *   affected: [affectedBy(one)],
 *   what: `no masquerade for ${nameOf(one)}`,
 *   ofMany: (count) => `table ip cni_masquerade does not exist: ${count} containers have no masquerade`,
 *   why: "other hosts cannot answer the address that its packets have",
 *   remedy: sh`podman network reload --all`,
 *   consequenceOf: ["bridge-missing"],
 * }
 */
export interface Finding {
  readonly rule: FindingName
  /** "error": something does not work now or later. "warning": everything works, but a setting is not as intended. */
  readonly severity: "error" | "warning"
  readonly network?: string
  /**
   * The faulty object that several findings may share: "bridge cni0", "table ip cni_masquerade", "net/ipv4/ip_forward".
   * A finding without a cause is not joined with others.
   */
  readonly cause?: string
  /** The affected objects. `affectedBy` creates them for attachments. */
  readonly affected?: readonly Affected[]
  /** The fault in words, with names of objects. */
  readonly what: string
  /** Returns the fault of `count` objects in words. The report adds the names of three objects, or of all. */
  readonly ofMany?: (count: number) => string
  /** The consequence of the fault. */
  readonly why: string
  /** The remedy: a command to paste, created by `sh`, or a sentence if no command repairs the fault. */
  readonly remedy: string | Command
  readonly note?: string
  /** Whether `--fix` deletes the affected attachments, because their container provably no longer exists. */
  readonly isFixable?: boolean
  /**
   * The rules of findings that may cause this one. Objects that such a finding affects are removed from this finding.
   * If either finding has no `affected` objects, this finding is dropped.
   */
  readonly consequenceOf?: readonly FindingName[]
}

/** An object that a fault affects: an attachment, a link or a file. */
export interface Affected {
  /** The name in messages: `nameOf` for an attachment, the quoted name for a link or a file. */
  readonly name: string
  readonly attachment?: NodeAttachment
  /** The affected part of the object: "ports 8080/tcp, 8443/tcp", by `someOf`. Messages show it after the name. */
  readonly detail?: string
}

/** The state of a node, as all checks receive it. */
export interface DoctorInput {
  readonly node: Node
  readonly attachments: readonly NodeAttachment[]
  /** The namespaces of running containers, by path. */
  readonly insides: ReadonlyMap<string, Inside | NotInside>
  /** The attachments of running containers, with the state of their namespaces. */
  readonly examined: readonly Examined[]
  readonly hostTables: HostTables
  /** All rules of the packet filter. Undefined if unreadable. */
  readonly filter: FilterView | undefined
  /** Traffic control filters that drop or redirect packets at host ends and bridges. Undefined if unreadable. */
  readonly traffic: readonly TrafficFilter[] | undefined
  /** The plugins in all network files and in the records of cached attachments, each configuration once. */
  readonly members: readonly Member[]
  /** Returns a plugin's file in the plugin directories, or undefined if none has it. Reads each version once. */
  plugin(type: string): PluginBinary | undefined
  /** Reports whether `cni install` of this tool would succeed in a directory. */
  canInstall(directory: string, adopt: boolean): boolean
  /** The directory flags that the user gave. Remedies repeat them in commands of this tool. */
  readonly flags: readonly string[]
  /** Returns a value below /proc/sys in this namespace, or `undefined` if it does not exist. */
  sysctl(path: string): string | undefined
}

export interface Member {
  readonly network: string
  readonly type: string
  readonly raw: JsonObject
}

/** Returns the faults of one subject. Changes nothing, and never throws for a missing object. */
export type Check = (input: DoctorInput) => Finding[]

/** Returns a value below /proc/sys in this namespace, or undefined if the kernel does not have it. */
export function readSysctl(path: string): string | undefined {
  try {
    return readTextFile(`/proc/sys/${path}`).trim()
  } catch {
    return undefined
  }
}

export function linkOnHost({ node }: DoctorInput, name: string): NodeLink | undefined {
  return node.links.find((link) => link.nsid === undefined && link.name === name)
}

/** Returns the bridge name in a configuration of the plugin bridge. Returns undefined for other plugins. */
export function bridgeOf({ type, raw }: Member): string | undefined {
  if (type !== "bridge") return undefined
  return typeof raw.bridge === "string" && raw.bridge !== "" ? raw.bridge : "cni0"
}

/** Returns the names of all bridges in a node's networks, without duplicates. */
export function bridgesOf({ members }: Pick<DoctorInput, "members">): string[] {
  return [...new Set(members.flatMap((member) => bridgeOf(member) ?? []))]
}

/** Returns the names of host interfaces that receive packets from containers: bridges, their VLANs, and veth ends. */
export function containerLinks(input: Pick<DoctorInput, "node" | "attachments" | "members">): string[] {
  const bridges = new Set(bridgesOf(input))
  const isVlan = (name: string) => name.includes(".") && bridges.has(name.replace(/\.\d+$/, "")) // "cni0.100" is VLAN 100 of cni0
  const isOfBridge = (name: string) => bridges.has(name) || isVlan(name)
  const own = input.node.links.filter(({ name, nsid }) => nsid === undefined && isOfBridge(name))
  const ends = input.attachments.flatMap(({ link }) => (link?.nsid === undefined ? (link?.name ?? []) : []))
  return [...new Set([...own.map(({ name }) => name), ...ends])]
}

/** Returns the `containerLinks` except bridge ports, whose IPv4 settings the kernel never uses. */
export function routedLinks(input: DoctorInput): string[] {
  const { links } = input.node
  const onHost = links.filter(({ nsid }) => nsid === undefined)
  const bridges = new Set(onHost.filter(({ kind }) => kind === "bridge").map(({ index }) => index as number))
  const ofAttachments = input.attachments.flatMap(({ link }) => link ?? [])
  const byName = new Map([...ofAttachments, ...onHost].map((link) => [link.name, link]))
  const isPort = (name: string) => {
    const master = byName.get(name)?.master
    return master !== undefined && bridges.has(master)
  }
  return containerLinks(input).filter((name) => !isPort(name))
}

export function nameOf({ network, containerId, ifName, pod }: NodeAttachment): string {
  const whose = pod === undefined ? "" : ` (pod ${[pod.namespace, pod.name].filter((part) => part).join("/")})`
  return `"${network}/${containerId}${ifName === "" ? "" : `/${ifName}`}"${whose}`
}

export function affectedBy(attachment: NodeAttachment): Affected {
  return { name: nameOf(attachment), attachment }
}

/** The most parts, such as ports, that a finding names for one object. A container may publish thousands of ports. */
const SOME = 5

/** Returns the first entries of a list in words: "port 8080/tcp", "ports 8080/tcp, 8443/tcp and 3 more". */
export function someOf(noun: string, list: readonly string[]): string {
  const more = list.length > SOME ? ` and ${list.length - SOME} more` : ""
  return `${noun}${list.length === 1 ? "" : "s"} ${list.slice(0, SOME).join(", ")}${more}`
}

/** Returns a command of this tool, with the flags that doctor used for the node's files. */
export function cniCommand(
  { flags }: Pick<DoctorInput, "flags">,
  verb: string,
  words: readonly string[],
  own: readonly string[] = [],
): Command {
  const before = [verb, ...(verb === "reconcile" ? withoutConfDir(flags) : flags), ...own]
  return words.length > 0 ? sh`cni ${before} ${words}` : sh`cni ${before}`
}

/** Removes `--conf-dir`, because `cni reconcile` reads the networks of attachments from the cache. */
function withoutConfDir(flags: readonly string[]): string[] {
  return flags.filter((_, at) => flags[at] !== "--conf-dir" && flags[at - 1] !== "--conf-dir")
}

/** Returns the command that installs this suite's plugins, or a sentence if the command would fail when pasted. */
export function installCommand({ canInstall }: DoctorInput, directory: string, adopt = false): Command | string {
  if (!canInstall(directory, adopt))
    return `install the plugins into ${directory} with "cni install" from their archive or package: the plugins beside this tool are incomplete, or others placed files there`
  if (adopt) return sh`cni install --bin-dir ${directory} --adopt`
  return exists(directory)
    ? sh`cni install --bin-dir ${directory}`
    : sh`mkdir -p ${directory}; cni install --bin-dir ${directory}`
}
