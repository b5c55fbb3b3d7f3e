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
 * A check returns a finding for each faulty object and names the `cause`. Findings with the same `rule` and `cause` are
 * joined (causes.ts): their `affected` objects are listed together and counted, and their commands become a loop.
 *
 * @example
 * // 250 containers whose masquerade is gone are one finding, since all name one table as the cause:
 * {
 *   rule: "missing-masquerade", severity: "error", network: one.network,
 *   cause: "table ip cni_masquerade",
 *   affected: [affectedBy(one)],
 *   what: `no masquerade for ${nameOf(one)}`,
 *   ofMany: (count) => `table ip cni_masquerade does not exist: ${count} containers have no masquerade`,
 *   why: "what it sends leaves with an address that no host outside can answer",
 *   remedy: sh`podman network reload --all`,
 *   consequenceOf: ["bridge-missing"],
 * }
 */
export interface Finding {
  readonly rule: FindingName
  /** "error": something does not work, or will not. "warning": it works, but a setting is not as intended. */
  readonly severity: "error" | "warning"
  /** The network that the finding concerns, if any. */
  readonly network?: string
  /**
   * The faulty object, which several affected objects share: "bridge cni0", "table ip cni_masquerade",
   * "net/ipv4/ip_forward". A finding without a cause is not joined with others.
   */
  readonly cause?: string
  /** The affected objects, mostly attachments, by `affectedBy`. */
  readonly affected?: readonly Affected[]
  /** The fault, with names. */
  readonly what: string
  /** The fault of several affected objects, without their names. Three of the names, or all, follow it. */
  readonly ofMany?: (count: number) => string
  /** The consequence. */
  readonly why: string
  /** The remedy: a command to paste, created by `sh`, or a sentence if no command repairs the fault. */
  readonly remedy: string | Command
  /** A note about the command. */
  readonly note?: string
  /** Whether `--fix` deletes the affected attachments: only if their container provably no longer exists. */
  readonly isFixable?: boolean
  /**
   * Rules of which this finding is only a consequence. Objects that a finding of these rules affects are removed from
   * this finding. A finding of these rules about the node as a whole removes every object.
   */
  readonly consequenceOf?: readonly FindingName[]
}

/** An affected object. */
export interface Affected {
  /** The name in messages: `nameOf` for an attachment, the quoted name for a link or a file. */
  readonly name: string
  readonly attachment?: NodeAttachment
  /** The affected part of the object, which follows its name: "ports 8080/tcp, 8443/tcp". Created by `someOf`. */
  readonly detail?: string
}

/** The input of the checks. */
export interface DoctorInput {
  readonly node: Node
  readonly attachments: readonly NodeAttachment[]
  /** The namespaces of running containers, by path. */
  readonly insides: ReadonlyMap<string, Inside | NotInside>
  /** The attachments with the state of their namespaces. */
  readonly examined: readonly Examined[]
  /** The host's routing toward the containers' addresses. */
  readonly hostTables: HostTables
  /** All rules of the packet filter. Undefined if unreadable. */
  readonly filter: FilterView | undefined
  /** Traffic control filters at containers' ends and bridges that drop or redirect packets. Undefined if unreadable. */
  readonly traffic: readonly TrafficFilter[] | undefined
  /**
   * The plugins of each network's file, and of each network in the cache that is in use. Each configuration is listed
   * once.
   */
  readonly members: readonly Member[]
  /** Returns a plugin's executable in the plugin directories, or undefined if none has it. Reads its version once. */
  plugin(type: string): PluginBinary | undefined
  /** Whether `cni install` of this tool would succeed in a directory. */
  canInstall(directory: string, adopt: boolean): boolean
  /** The given directory flags, which commands of this tool in remedies repeat. */
  readonly flags: readonly string[]
  /** Returns a value below /proc/sys in this namespace, or `undefined` if it does not exist. */
  sysctl(path: string): string | undefined
}

/** A plugin in a network. */
export interface Member {
  readonly network: string
  readonly type: string
  readonly raw: JsonObject
}

/** Checks one subject. Changes nothing, and never throws for a missing object. */
export type Check = (input: DoctorInput) => Finding[]

/** Reads a value below /proc/sys in this namespace. Returns undefined if the kernel has none. */
export function readSysctl(path: string): string | undefined {
  try {
    return readTextFile(`/proc/sys/${path}`).trim()
  } catch {
    return undefined
  }
}

/** Returns the host's link with a name. */
export function linkOnHost({ node }: DoctorInput, name: string): NodeLink | undefined {
  return node.links.find((link) => link.nsid === undefined && link.name === name)
}

/** Returns the bridge in a configuration of the plugin bridge. */
export function bridgeOf({ type, raw }: Member): string | undefined {
  if (type !== "bridge") return undefined
  return typeof raw.bridge === "string" && raw.bridge !== "" ? raw.bridge : "cni0"
}

/** Returns the bridges of a node's networks without duplicates. */
export function bridgesOf({ members }: Pick<DoctorInput, "members">): string[] {
  return [...new Set(members.flatMap((member) => bridgeOf(member) ?? []))]
}

/** Returns the host's interfaces that receive containers' packets: existing bridges, their VLANs, and veth ends. */
export function containerLinks(input: Pick<DoctorInput, "node" | "attachments" | "members">): string[] {
  const bridges = new Set(bridgesOf(input))
  const isVlan = (name: string) => name.includes(".") && bridges.has(name.replace(/\.\d+$/, "")) // "cni0.100" is VLAN 100 of cni0
  const isOfBridge = (name: string) => bridges.has(name) || isVlan(name)
  const own = input.node.links.filter(({ name, nsid }) => nsid === undefined && isOfBridge(name))
  const ends = input.attachments.flatMap(({ link }) => (link?.nsid === undefined ? (link?.name ?? []) : []))
  return [...new Set([...own.map(({ name }) => name), ...ends])]
}

/** Returns those of them that route packets: not bridge ports, whose IPv4 settings the kernel never uses. */
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

/** Returns the name of an attachment for messages. */
export function nameOf({ network, containerId, ifName, pod }: NodeAttachment): string {
  const whose = pod === undefined ? "" : ` (pod ${[pod.namespace, pod.name].filter((part) => part).join("/")})`
  return `"${network}/${containerId}${ifName === "" ? "" : `/${ifName}`}"${whose}`
}

/** Returns an attachment as an affected object. */
export function affectedBy(attachment: NodeAttachment): Affected {
  return { name: nameOf(attachment), attachment }
}

/** The number of parts of one object that a finding names. A container may have thousands. */
const SOME = 5

/** Returns the beginning of a list in words: "port 8080/tcp", "ports 8080/tcp, 8443/tcp and 3 more". */
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

/** Removes `--conf-dir`, because only the cache has the networks of attachments. */
function withoutConfDir(flags: readonly string[]): string[] {
  return flags.filter((_, at) => flags[at] !== "--conf-dir" && flags[at - 1] !== "--conf-dir")
}

/**
 * Returns the command that installs this suite's plugins into a directory, or a sentence if the command would fail when
 * pasted.
 */
export function installCommand({ canInstall }: DoctorInput, directory: string, adopt = false): Command | string {
  if (!canInstall(directory, adopt))
    return `install the plugins into ${directory} with "cni install" from their archive or package: the plugins beside this tool are incomplete, or others placed files there`
  if (adopt) return sh`cni install --bin-dir ${directory} --adopt`
  return exists(directory)
    ? sh`cni install --bin-dir ${directory}`
    : sh`mkdir -p ${directory}; cni install --bin-dir ${directory}`
}
