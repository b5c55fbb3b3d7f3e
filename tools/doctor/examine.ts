import type { NetworkPlugin, Runtime } from "../../pkg/libcni/mod.ts"
import { parseIp } from "../../pkg/types/mod.ts"
import {
  attachmentsOf,
  type FilterView,
  type NodePlaces,
  namesOfFiles,
  noIpsec,
  readHostTables,
  readInsides,
  readNode,
  readPacketFilter,
  readTrafficFilters,
  recordedPlugins,
} from "../node/mod.ts"
import { canInstall } from "../plugin-source.ts"
import { inspectPlugin, type PluginBinary } from "./binaries.ts"
import { byCause } from "./causes.ts"
import { checks } from "./checks.ts"
import { containerLinks, type DoctorInput, type Finding, type Member, readSysctl } from "./finding.ts"
import { examinedOf } from "./inside.ts"
import { samplesOfClosed } from "./outside.ts"
import { settingsOf } from "./settings.ts"
import { checkStatus } from "./status.ts"
import { dnsServersOf } from "./uplinks.ts"

export interface Examination {
  readonly input: DoctorInput
  readonly findings: readonly Finding[]
}

/** The scope of an examination: one network, or all if undefined, and the directory flags that the user gave. */
export interface Question {
  readonly network?: string | undefined
  readonly flags?: readonly string[]
}

/** Reads the node once, runs every check on it, and calls STATUS of every network's plugins. */
export async function examine(
  places: NodePlaces,
  runtime: Runtime,
  { network, flags = [] }: Question = {},
): Promise<Examination> {
  const input = readInput(places, flags)
  const findings = checks.flatMap((check) => check(input))
  for (const { network: found } of input.node.networks) {
    const isTwice = input.node.networks.find((each) => each.network?.name === found?.name)?.network !== found
    if (found && !isTwice && (network === undefined || found.name === network))
      findings.push(...(await checkStatus(runtime, found)))
  }
  return { input, findings: foundIn(findings, network) }
}

/** Reads the node once and runs every check on it, without running any plugin. */
export function examineNode(places: NodePlaces, { network, flags = [] }: Question = {}): Examination {
  const input = readInput(places, flags)
  const findings = checks.flatMap((check) => check(input))
  return { input, findings: foundIn(findings, network) }
}

/** Returns a network's findings, or all: one for each cause, errors first, with those about the whole node. */
function foundIn(findings: readonly Finding[], network: string | undefined): Finding[] {
  const isAsked = (finding: Finding) => network === undefined || (finding.network ?? network) === network
  return byCause(findings.filter(isAsked)).sort(bySeverity)
}

function readInput(places: NodePlaces, flags: readonly string[]): DoctorInput {
  const node = readNode(places)
  const attachments = attachmentsOf(node)
  const insides = readInsides(attachments, settingsOf)
  const examined = examinedOf(attachments, insides)
  const members = membersOf(node)
  const binaries = new Map<string, PluginBinary | undefined>()
  const settings = new Map<string, string | undefined>() // reads each setting once for all containers
  return {
    node,
    attachments,
    insides,
    examined,
    hostTables: tryReadHostTables(examined, node),
    filter: tryReadFilter(),
    traffic: tryReadTraffic({ node, attachments, members }),
    members,
    canInstall,
    flags,
    plugin: (type) => binaries.getOrInsertComputed(type, () => inspectPlugin(type, places.binDirs)),
    sysctl: (path) => settings.getOrInsertComputed(path, readSysctl),
  }
}

/** Returns the packet filter, or undefined without permission to read it, which the finding `cannot-look` reports. */
function tryReadFilter(): FilterView | undefined {
  try {
    return readPacketFilter()
  } catch {
    return undefined
  }
}

/**
 * Returns the traffic control filters, or undefined if the kernel does not answer. Reading the links then also fails,
 * which the finding `cannot-look` reports.
 */
function tryReadTraffic(read: Pick<DoctorInput, "node" | "attachments" | "members">): DoctorInput["traffic"] {
  const names = new Set(containerLinks(read))
  try {
    return readTrafficFilters(read.node.links.filter(({ nsid, name }) => nsid === undefined && names.has(name)))
  } catch {
    return undefined
  }
}

const noTables: DoctorInput["hostTables"] = {
  rules: [],
  withoutMain: [],
  routes: [],
  neighbours: [],
  routesTo: new Map(),
  deafBridges: new Set(),
  fixedEntries: new Map(),
  neighbourTables: [],
  countedNeighbours: new Map(),
  ipsec: noIpsec,
}

/** Returns empty tables if the kernel does not answer. Reading the routes then fails too: finding `cannot-look`. */
function tryReadHostTables(examined: DoctorInput["examined"], node: DoctorInput["node"]): DoctorInput["hostTables"] {
  const { links } = node
  const masters = new Set(examined.map(({ one: { link } }) => (link?.nsid === undefined ? link?.master : undefined)))
  const bridges = links.filter(({ nsid, kind, index }) => nsid === undefined && kind === "bridge" && masters.has(index))
  const ofContainers = examined.flatMap((one) => [
    ...one.interfaces.flatMap(({ addresses }) => addresses.map(({ ip }) => ip)),
    ...dnsServersOf(one),
    ...(one.one.result?.ips ?? []).flatMap(({ gateway }) => (gateway ? (parseIp(gateway) ?? []) : [])),
  ])
  try {
    return readHostTables([...ofContainers, ...samplesOfClosed(node, examined)], bridges)
  } catch {
    return noTables
  }
}

function membersOf({ networks, cache, places }: DoctorInput["node"]): Member[] {
  const members = new Map<string, Member>()
  const add = (network: string, { type, raw }: Pick<Member, "type" | "raw">) => {
    members.getOrInsert(`${network} ${JSON.stringify(raw)}`, { network, type, raw })
  }
  const nameOf = namesOfFiles(places.binDirs)
  for (const { network } of networks) {
    for (const { type, raw } of network?.plugins ?? []) add(network?.name ?? "", { type: nameOf(type), raw })
  }
  const seen = new Set<readonly NetworkPlugin[]>()
  for (const entry of cache) {
    const plugins = recordedPlugins(entry) ?? []
    if (!seen.has(plugins)) for (const plugin of plugins) add(entry.network, plugin)
    seen.add(plugins)
  }
  return [...members.values()]
}

function bySeverity(a: Finding, b: Finding): number {
  return Number(a.severity === "warning") - Number(b.severity === "warning")
}
