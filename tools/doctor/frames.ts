import { chainsAt, type FilterView, isUnconditional, type NodeLink, verdictOf } from "../node/mod.ts"
import { affectedBy, type Check, containerLinks, type Finding } from "./finding.ts"
import { aboutContainers } from "./frame-rules.ts"
import { type Command, inOneLine, sh } from "./remedy.ts"

type Rule = FilterView["rules"][number]
type Base = FilterView["bases"][number]

/** A base chain's drops of what containers send or get: by rules, or by what comes to its end. */
interface Drops {
  readonly rules: readonly Rule[]
  readonly byPolicy: boolean
}

/** Chains of family bridge that drop the frames of containers: a base chain's policy, or a rule for a port, an address or all. */
export const checkFrames: Check = (patient) => {
  const { filter } = patient
  if (!filter || patient.examined.every(({ one }) => one.link?.master === undefined)) return []
  const isMeant = aboutContainers(patient)
  const bases = filter.bases.filter(
    ({ table, type }) => table.family === "bridge" && type === "filter" && isOthers(table),
  )
  return bases.flatMap((base): Finding[] => {
    const { rules, byPolicy } = dropsOf(filter, base, isMeant)
    const { name } = base.table
    const about = {
      rule: "frames-dropped",
      severity: "error",
      why: "frames between containers of the bridge, or between them and their gateway, do not arrive",
    } as const
    const [first] = rules
    if (first)
      return [
        {
          ...about,
          what: `a rule in table bridge ${name}, chain ${first.chain.name}, drops frames of containers: handle ${first.handle}`,
          remedy: deletionOf(first),
        },
      ]
    if (!byPolicy) return []
    const what = `table bridge ${name}, chain ${base.name}, drops what no rule of it accepts, and none accepts containers`
    return [{ ...about, what, remedy: acceptingPolicy(base) }]
  })
}

/**
 * Chains at the ingress or egress hook of an interface that drop what containers send or get. At an uplink only those that drop all: rules
 * there that drop packets with containers' addresses are checks of what comes from outside.
 */
export const checkDeviceHooks: Check = (patient) => {
  const { filter, attachments } = patient
  if (!filter || attachments.length === 0) return []
  const links = new Set(containerLinks(patient))
  const defaults = patient.node.routes.filter(({ dst }) => dst === "0.0.0.0/0" || dst === "::/0")
  const uplinks = new Set(defaults.flatMap(({ dev }) => dev ?? []))
  const isMeant = aboutContainers(patient)
  const bases = filter.bases.filter(({ table, type }) => type === "filter" && isOthers(table))
  return bases.flatMap((base): Finding[] => {
    const at = base.devices?.filter((name) => links.has(name) || uplinks.has(name)) ?? []
    const [device] = at
    if (device === undefined) return []
    const { rules, byPolicy } = dropsOf(filter, base, at.some((name) => links.has(name)) ? isMeant : () => false)
    if (rules.length === 0 && !byPolicy) return []
    const { family, name } = base.table
    const place = `table ${family} ${name}, chain ${base.name}, at ${base.hook} of ${at.map((each) => `"${each}"`).join(", ")}`
    const shown = rules.map(({ chain, handle }) => `chain ${chain.name}, handle ${handle}`).join("; ")
    const what =
      rules.length > 0
        ? `a rule in ${place}, drops packets of containers: ${shown}`
        : `${place}, drops what no rule of it accepts, and none accepts containers`
    const concerned = attachments.filter(({ link }) => at.includes(link?.name ?? ""))
    return [
      {
        rule: "netdev-drop",
        severity: "error",
        cause: place,
        affected: concerned.map(affectedBy),
        what,
        ofMany: () => what,
        why: "it is asked before all other rules, and a drop is final: what containers send by the interface, or get by it, does not arrive",
        remedy: rules.length > 0 ? inOneLine(rules.map(deletionOf)) : acceptingPolicy(base),
      },
    ]
  })
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
        remedy: sh`ip link set dev ${name} ${xdp.mode} off`,
        note: `it may be meant to be there: bpftool prog show id ${xdp.id} tells what it is`,
      },
    ]
  })
}

function isOthers({ name }: Base["table"]): boolean {
  return !/^cni_/.test(name)
}

function dropsOf(filter: FilterView, base: Base, isMeant: (rule: Rule) => boolean): Drops {
  const chains = chainsAt(filter, base)
  const { family, name } = base.table
  const inChains = filter.rules.filter(
    ({ chain }) => chain.table.family === family && chain.table.name === name && chains.includes(chain.name),
  )
  const accepted = inChains.some((rule) => verdictOf(rule) === "accept" && (isUnconditional(rule) || isMeant(rule)))
  const isForAll = (rule: Rule) => isUnconditional(rule) && rule.chain.name === base.name && !accepted
  const rules = inChains.filter((rule) => verdictOf(rule) === "drop" && (isMeant(rule) || isForAll(rule)))
  return { rules, byPolicy: base.policy === "drop" && !accepted }
}

function deletionOf({ chain: { table, name }, handle }: Rule): Command {
  return sh`nft delete rule ${[table.family, table.name, name]} handle ${String(handle)}`
}

/** The kernel takes a base chain's policy anew without its hook, and without its interfaces. */
function acceptingPolicy({ table, name }: Base): Command {
  return sh`nft add chain ${[table.family, table.name, name]} ${"{ policy accept; }"}`
}
