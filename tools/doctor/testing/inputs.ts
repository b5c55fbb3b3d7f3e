import type { FoundRule } from "../../../pkg/nftables/mod.ts"
import { type FilterView, type Node, type NodeAttachment, type NodeLink, noIpsec } from "../../node/mod.ts"
import { inspectPlugin } from "../binaries.ts"
import { byCause, describe } from "../causes.ts"
import type { DoctorInput, Finding, Member } from "../finding.ts"
import { examinedOf } from "../inside.ts"
import { Command } from "../remedy.ts"

/** The parts of a node's state that a test sets. All others are empty. */
export interface Parts extends Partial<Omit<Node, "rules" | "networks" | "stores">> {
  attachments?: NodeAttachment[]
  filter?: FilterView
  traffic?: DoctorInput["traffic"]
  members?: Member[]
  insides?: DoctorInput["insides"]
  tables?: Partial<DoctorInput["hostTables"]>
  ports?: Node["rules"]["ports"]
  networks?: object[]
  stores?: object[]
  flags?: readonly string[]
  plugin?: DoctorInput["plugin"]
  canInstall?: DoctorInput["canInstall"]
  /** The values below /proc/sys, by path. */
  sysctls?: Readonly<Record<string, string>>
}

export function inputOf({
  attachments = [],
  members = [],
  filter,
  traffic = [],
  ports = [],
  sysctls = {},
  flags = [],
  plugin = (type) => inspectPlugin(type, node.places?.binDirs ?? []),
  canInstall = () => true,
  insides = new Map(),
  tables = {},
  ...node
}: Parts = {}): DoctorInput {
  const places = { confDir: "/etc/cni/net.d", binDirs: [], cacheDir: "/nowhere/cache", dataDir: "/nowhere/data" }
  const empty = { places, readMs: 0, networks: [], cache: [], stores: [], links: [], routes: [], unread: [] }
  const read = { ...empty, rules: { owned: [], ports }, ...node } as never
  const examined = examinedOf(attachments, insides)
  const lists = { rules: [], withoutMain: [], routes: [], neighbours: [], neighbourTables: [], ipsec: noIpsec }
  const hostTables = {
    ...lists,
    routesTo: new Map(),
    deafBridges: new Set<number>(),
    fixedEntries: new Map(),
    countedNeighbours: new Map(),
    ...tables,
  }
  return {
    node: read,
    attachments,
    insides,
    examined,
    hostTables,
    filter,
    traffic,
    members,
    canInstall,
    flags,
    plugin,
    sysctl: (path) => sysctls[path],
  }
}

export const linkOf = (index: number, name: string, more: Partial<NodeLink> = {}): NodeLink => ({
  index,
  name,
  kind: "veth",
  mac: "",
  mtu: 1500,
  isUp: true,
  state: "up",
  addresses: [],
  ...more,
})

/** Returns the attachment "pods/c1/eth0" with the given properties. */
export const attachmentOf = (more: Partial<NodeAttachment> = {}): NodeAttachment => ({
  network: "pods",
  containerId: "c1",
  ifName: "eth0",
  sources: [],
  addresses: [],
  ports: [],
  unservedPorts: [],
  rules: [],
  orphan: [],
  ...more,
})

/** Returns the runtime's record of an attachment whose network has these plugins. */
export const cachedOf = (plugins: readonly object[] | string, more: object = {}): { cached: never } => {
  const list = typeof plugins === "string" ? plugins : JSON.stringify({ cniVersion: "1.1.0", name: "pods", plugins })
  return { cached: { config: new TextEncoder().encode(list), capabilityArgs: {}, args: [], ...more } as never }
}

export const memberOf = (raw: { type: string } & Record<string, unknown>, network = "pods"): Member =>
  ({ network, type: raw.type, raw }) as Member

export type Part = readonly [name: string, data: object]

/** Returns a rule in a chain such as "ip filter FORWARD". */
export function ruleOf(place: string, handle: number, ...parts: readonly Part[]): FoundRule {
  const [family, table, name] = place.split(" ")
  const expressions = parts.map(([name, data]) => ({ name, data }))
  return { chain: { table: { family, name: table }, name }, handle: BigInt(handle), expressions } as never
}

/** Returns a base chain such as "ip filter FORWARD". */
export function baseOf(place: string, more: Partial<FilterView["bases"][number]> = {}): FilterView["bases"][number] {
  const [family, table, name = ""] = place.split(" ")
  const base = { table: { family, name: table } as never, name, type: "filter", hook: "forward" }
  return { ...base, priority: 0, policy: "accept", ...more }
}

const [DROP, ACCEPT, JUMP] = [0, 1, 0xfffffffd] // <linux/netfilter/nf_tables.h>, <linux/netfilter.h>
const verdict = (code: number, chain?: string): Part => ["immediate", { data: { verdict: { code, chain } } }]
export const drop = verdict(DROP)
export const accept = verdict(ACCEPT)
export const jump = (chain: string): Part => verdict(JUMP, chain)
export const compare = (...value: number[]): Part => ["cmp", { data: { value: Uint8Array.from(value) } }]

/** Returns the findings as text, one for each cause, with their network in brackets. */
export function printed(findings: readonly Finding[]): string[] {
  return byCause(findings).map((finding) => {
    const { severity, rule, network, why, remedy, isFixable } = finding
    return [
      `${severity} ${rule}${network === undefined ? "" : ` (${network})`}${isFixable ? ", fixable" : ""}`,
      describe(finding),
      why,
      remedy instanceof Command ? remedy.line : remedy,
    ].join("\n")
  })
}
