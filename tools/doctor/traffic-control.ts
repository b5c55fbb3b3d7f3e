import type { NodeAttachment, NodeLink, TrafficFilter } from "../node/mod.ts"
import { aboutRules } from "./attachments.ts"
import { affectedBy, type Check, containerLinks, type DoctorInput, type Finding, nameOf } from "./finding.ts"
import { inContainer } from "./inside.ts"
import { type Command, ofOthers, sh } from "./remedy.ts"

/** Names of eBPF programs that network plugins attach to host ends: those of Cilium, Calico and AWS. */
const OF_NETWORK_PLUGINS = /^(cil_|bpf_(lxc|host|overlay)|cali|handle_(in|e)gress)/

/**
 * Finds traffic control filters at host ends and bridges that may drop or redirect packets. Ignores redirection to an
 * ifb, with which bandwidth and other programs limit rates.
 */
export const checkTrafficFilters: Check = (input) =>
  (input.traffic ?? []).flatMap((found): Finding[] => {
    const { link, effect, isForAll } = found
    const target = input.node.links.find(({ nsid, index }) => nsid === undefined && index === found.target)
    if (effect === "redirects" && target?.kind === "ifb" && target.isUp) return []
    if (effect === "decides" && OF_NETWORK_PLUGINS.test(found.by ?? "")) return []
    const does = deedOf(found, target)
    const place = `${found.place}, pref ${found.filter.priority}, ${found.filter.kind}`
    const concerned = attachmentsAt(link, input)
    return [
      {
        rule: "tc-filter",
        severity: isForAll && effect !== "decides" ? "error" : "warning",
        cause: link.kind === "bridge" ? `bridge ${link.name}` : `ends: ${found.place} ${does}`,
        affected: concerned.map(affectedBy),
        what: `a tc filter at "${link.name}" (${place}) ${does}`,
        ofMany: (count) =>
          link.kind === "bridge"
            ? `a tc filter at "${link.name}" (${place}), the bridge of ${count} containers, ${does}`
            : `a tc filter at each interface of ${count} containers, such as "${link.name}" (${place}), ${does}`,
        why:
          found.place === "ingress"
            ? "it runs before all rules of the packet filter, and no rule shows the packets that it drops"
            : "it runs after all rules of the packet filter, and no rule shows the packets that it drops",
        ...remedyOf(found, concerned, input),
      },
    ]
  })

function deedOf({ effect, isForAll, by, target: index }: TrafficFilter, target: NodeLink | undefined): string {
  const packets = isForAll ? "all packets" : "the packets that it matches"
  if (effect === "drops") return `drops ${packets}`
  if (effect === "decides") return by === "police" ? `limits ${packets}` : `lets ${by} decide about ${packets}`
  if (target?.isUp) return `sends ${packets} to "${target.name}" instead`
  const lost = target
    ? `"${target.name}", which is down`
    : `an interface that does not exist${index ? ` (index ${index})` : ""}`
  return `sends ${packets} to ${lost}: they are dropped`
}

/** Returns a filter's remedy: to restore a limit whose ifb was deleted, or to delete an unintended filter. */
function remedyOf(
  found: TrafficFilter,
  concerned: readonly NodeAttachment[],
  input: DoctorInput,
): Pick<Finding, "remedy" | "note"> {
  const [one] = concerned
  const isLimit = found.target === 0 && one?.result?.interfaces.some(({ name }) => /^bwp/.test(name))
  if (one && isLimit) {
    const { remedy, note } = aboutRules(one, input, "bandwidth")
    return { remedy, note }
  }
  const { link, place } = found
  return {
    remedy: ofOthers("it may be intended; if not, delete it", sh`tc filter show dev ${link.name} ${place.split(" ")}`),
  }
}

/** The effects of qdiscs that lose packets, by kind. */
const LOSING: Readonly<Record<string, string>> = {
  blackhole: "drops all packets sent through it",
  netem: "delays, drops, corrupts or duplicates packets, as configured",
  plug: "holds packets until a program releases them",
}

/** Finds qdiscs that lose packets on purpose, as after fault injection, on the host and in containers. */
export const checkQueues: Check = (input) => [...queuesOnHost(input), ...queuesInContainers(input)]

function queuesOnHost(input: DoctorInput): Finding[] {
  const { node, attachments } = input
  const defaults = node.routes.filter(({ dst }) => dst === "0.0.0.0/0" || dst === "::/0")
  const uplinks = new Set(defaults.flatMap(({ dev }) => dev ?? []))
  const names = new Set([...containerLinks(input), ...uplinks])
  const isLosing = ({ qdisc = "" }: NodeLink) => LOSING[qdisc] !== undefined
  const own = node.links.filter((link) => link.nsid === undefined && isLosing(link) && names.has(link.name))
  return own.flatMap((link): Finding[] =>
    queueFinding(link.qdisc, {
      cause: link.kind === "bridge" || uplinks.has(link.name) ? link.name : "ends",
      affected: uplinks.has(link.name) ? attachments : attachmentsAt(link, input),
      where: `"${link.name}"`,
      ofMany: (count) =>
        uplinks.has(link.name) ? `the outgoing interfaces of ${count} containers` : `interfaces of ${count} containers`,
      shown: sh`tc qdisc show dev ${link.name}`,
    }),
  )
}

function queuesInContainers({ examined }: DoctorInput): Finding[] {
  return examined.flatMap(({ one, inside, interfaces }) =>
    interfaces.flatMap(({ name, link }) =>
      queueFinding(link?.attributes.qdisc, {
        cause: `containers: ${name}`,
        affected: [one],
        where: `interface "${name}" of ${nameOf(one)}`,
        ofMany: (count) => `interfaces "${name}" in ${count} containers`,
        shown: inContainer(inside, [sh`tc qdisc show dev ${name}`]),
      }),
    ),
  )
}

interface Queue extends Pick<Finding, "cause"> {
  readonly shown: Command
  readonly affected: readonly NodeAttachment[]
  readonly where: string
  readonly ofMany: (count: number) => string
}

function queueFinding(kind = "", { cause = "", affected, where, ofMany, shown }: Queue): Finding[] {
  const does = LOSING[kind]
  if (does === undefined) return []
  return [
    {
      rule: "queue-drops",
      severity: kind === "netem" ? "warning" : "error",
      cause: `${kind} ${cause}`,
      affected: affected.map(affectedBy),
      what: `${where} has the qdisc ${kind}, which ${does}`,
      ofMany: (count) => `${ofMany(count)} have the qdisc ${kind}, which ${does}`,
      why: "packets are lost or late after all rules, and no rule shows this",
      remedy: ofOthers("a fault-injection test may be running; if not, delete the qdisc", shown),
    },
  ]
}

/** Returns the attachments whose host end or bridge is the given link. */
function attachmentsAt({ index }: NodeLink, { attachments }: DoctorInput): readonly NodeAttachment[] {
  return attachments.filter(
    ({ link }) => link !== undefined && link.nsid === undefined && (link.index === index || link.master === index),
  )
}
