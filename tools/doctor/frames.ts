import type { NodeLink } from "../node/mod.ts"
import { type Base, type Closed, closedBy, indexed, shownChain, type Way } from "./closed-chains.ts"
import { affectedBy, type Check, containerLinks, type Finding, linkOnHost, type Patient, someOf } from "./finding.ts"
import { ofOthers, sh } from "./remedy.ts"

/** The hooks that frames of a bridge's port come through, and the interface that is known there. */
const DIRECTIONS: Readonly<Record<string, readonly Way["direction"][]>> = {
  prerouting: ["in"],
  input: ["in"],
  forward: ["in", "out"],
  output: ["out"],
  postrouting: ["out"],
  ingress: ["in"],
  egress: ["out"],
}

/** Chains of family bridge that drop every frame of a container's port. */
export const checkFrames: Check = (patient) => {
  const ports = patient.attachments.flatMap(({ link }) =>
    link !== undefined && link.nsid === undefined && link.master !== undefined ? [link.name] : [],
  )
  return closedChains(patient, ({ table }) => (table.family === "bridge" ? ports : [])).map(
    ({ base, found, devices }) => ({
      rule: "frames-dropped",
      severity: "error",
      why: "frames between containers of the bridge, or between them and their gateway, do not arrive",
      ...describeClosed({ base, found, devices }, patient),
    }),
  )
}

/** Chains at the ingress or egress hook of a container's end, a bridge or an uplink that drop everything. */
export const checkDeviceHooks: Check = (patient) => {
  const defaults = patient.node.routes.filter(({ dst }) => dst === "0.0.0.0/0" || dst === "::/0")
  const names = new Set([...containerLinks(patient), ...defaults.flatMap(({ dev }) => dev ?? [])])
  const isConcerned = (name: string) => names.has(name)
  return closedChains(patient, ({ devices = [] }) => devices.filter(isConcerned)).map(({ base, found, devices }) => ({
    rule: "netdev-drop",
    severity: "error",
    why: "it is asked before all other rules, and a drop is final: what containers send by the interface, or get by it, does not arrive",
    ...describeClosed({ base, found, devices }, patient),
  }))
}

/** A chain of others that drops everything of these interfaces. */
interface ClosedChain {
  readonly base: Base
  readonly found: Closed
  readonly devices: readonly string[]
}

function closedChains(patient: Patient, devicesOf: (base: Base) => readonly string[]): ClosedChain[] {
  const { filter, attachments } = patient
  if (!filter || attachments.length === 0) return []
  const rulesOf = indexed(filter)
  return filter.bases.flatMap((base): ClosedChain[] => {
    if (base.type !== "filter" || /^cni_/.test(base.table.name)) return []
    const closed = devicesOf(base).flatMap((device) => {
      const index = linkOnHost(patient, device)?.index
      const ways = (DIRECTIONS[base.hook] ?? []).map((direction) => ({ direction, device, index }))
      const [found] = ways.flatMap((way) => closedBy(base, way, rulesOf) ?? [])
      return found ? [{ device, found }] : []
    })
    const [first] = closed
    return first ? [{ base, found: first.found, devices: closed.map(({ device }) => device) }] : []
  })
}

function describeClosed(
  { base, found: { rule }, devices }: ClosedChain,
  { attachments }: Patient,
): Pick<Finding, "cause" | "affected" | "what" | "ofMany" | "remedy"> {
  const { table, name, hook } = base
  const place = `table ${table.family} ${table.name}, chain ${name}, at ${hook}`
  const of = `of ${someOf(
    "interface",
    devices.map((each) => `"${each}"`),
  )}`
  const what =
    rule === undefined
      ? `${place} drops everything ${of}, by its policy`
      : `a rule in ${place} drops everything ${of}: chain ${rule.chain.name}, handle ${rule.handle}`
  return {
    cause: place,
    affected: attachments.filter(({ link }) => devices.includes(link?.name ?? "")).map(affectedBy),
    what,
    ofMany: () => what,
    remedy: ofOthers("let frames of containers pass there", shownChain(rule?.chain ?? base)),
  }
}

/** XDP programs at containers' ends and bridges; at an uplink, network plugins that work by eBPF have theirs. What they drop cannot be read. */
export const checkXdp: Check = (patient) => {
  const names = new Set(containerLinks(patient))
  const own = patient.node.links.filter(({ nsid, name }) => nsid === undefined && names.has(name))
  return own.flatMap((link): Finding[] => {
    const { name, xdp } = link
    if (!xdp) return []
    const isConcerned = ({ nsid, index, master }: NodeLink) =>
      nsid === undefined && (index === link.index || master === link.index)
    const concerned = patient.attachments.filter((one) => one.link && isConcerned(one.link))
    return [
      {
        rule: "xdp-program",
        severity: "warning",
        cause: link.kind === "bridge" ? `bridge ${name}` : "ends",
        affected: concerned.map(affectedBy),
        what: `an XDP program (id ${xdp.id}) is attached to "${name}"`,
        ofMany: (count) => `XDP programs are attached to interfaces of ${count} containers, at "${name}" id ${xdp.id}`,
        why: "it sees each packet that comes in there before all rules, and no rule shows what it drops",
        remedy: ofOthers("it may be meant to be there: if it is not, detach it", sh`bpftool prog show id ${xdp.id}`),
      },
    ]
  })
}
