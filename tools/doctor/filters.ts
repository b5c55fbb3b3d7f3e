import { parseCidr } from "../../pkg/types/mod.ts"
import { type FilterView, verdictOf } from "../node/mod.ts"
import { type Base, type Closed, closedBy, indexed, type Rule, type RulesOf, shownChain } from "./closed-chains.ts"
import { affectedBy, type Check, type Finding, linkOnHost, type Patient, routedLinks } from "./finding.ts"
import { ofOthers } from "./remedy.ts"

/** Tables of this suite, and of the reference suite. */
const OURS = /^cni_/

/** The hooks that routed packets of containers come through, and the interface that is known there. */
const DIRECTIONS: Readonly<Record<string, readonly ("in" | "out")[]>> = {
  prerouting: ["in"],
  forward: ["in", "out"],
  postrouting: ["out"],
}

/**
 * Base chains of others that drop every packet which the host forwards for containers of an interface: by a rule or by the policy. A chain
 * that lets any packet pass is its maker's affair.
 */
export const checkDrops: Check = (patient) => {
  const { filter, attachments } = patient
  if (!filter || attachments.length === 0) return []
  const rulesOf = indexed(filter)
  const devices = routedLinks(patient).filter((name) => linkOnHost(patient, name))
  return filter.bases.flatMap((base): Finding[] => {
    const { type, table, hook } = base
    if (type !== "filter" || OURS.test(table.name) || !(hook in DIRECTIONS)) return []
    if (!["inet", "ip", "ip6"].includes(table.family)) return []
    const closed = devices.flatMap((device) => {
      const found =
        concernedBy(device, base, patient).length > 0 ? closedFor(base, device, rulesOf, patient) : undefined
      return found ? [{ device, found }] : []
    })
    const [first] = closed
    if (first === undefined) return []
    const affected = closed.flatMap(({ device }) => concernedBy(device, base, patient))
    const maker = makerOf(filter, table.name)
    const place = `table ${table.family} ${table.name}, chain ${base.name}${maker === undefined ? "" : ` (made by ${maker})`}`
    const { rule } = first.found
    const what =
      rule === undefined
        ? `${place} drops every packet of containers of "${first.device}", by its policy`
        : `a rule in ${place} drops every packet of containers of "${first.device}": chain ${rule.chain.name}, handle ${rule.handle}`
    return [
      {
        rule: rule === undefined ? "forward-drop" : "forward-drop-rule",
        severity: "error",
        cause: place,
        affected: [...new Set(affected)].map(affectedBy),
        what,
        ofMany: () => what,
        why: whyOf(patient),
        remedy: ofOthers(
          `let packets that come by "${first.device}" or leave by it pass there${hintOf(maker, first.device)}`,
          shownChain(rule?.chain ?? base),
        ),
      },
    ]
  })
}

/**
 * What drops all that containers of an interface send, or all that they get. A chain for forwarded packets that accepts those of connections which
 * exist, and none that begins one, is closed as well: no connection comes to be.
 */
function closedFor(base: Base, device: string, rulesOf: RulesOf, patient: Patient): Closed | undefined {
  const index = linkOnHost(patient, device)?.index
  const directions = DIRECTIONS[base.hook] ?? []
  const closed = (isNew: boolean) =>
    directions.flatMap((direction) => closedBy(base, { direction, device, index, isNew }, rulesOf) ?? [])
  const [first] = closed(false)
  if (first !== undefined || base.hook !== "forward") return first
  const begun = closed(true)
  return begun.length === directions.length ? begun[0] : undefined
}

/** The attachments of an interface that have an address of a table's family. */
function concernedBy(device: string, { table }: Base, patient: Patient): Patient["attachments"] {
  const link = linkOnHost(patient, device)
  const vlanOf = link?.kind === "vlan" ? link.peer : undefined
  const isOf = (index: number | undefined) => index !== undefined && (index === link?.index || index === vlanOf)
  const length = { ip: 4, ip6: 16 }[table.family as string]
  return patient.attachments.filter(
    ({ link: end, addresses }) =>
      end?.nsid === undefined &&
      (isOf(end?.index) || isOf(end?.master)) &&
      (length === undefined || addresses.some((address) => parseCidr(address)?.ip.length === length)),
  )
}

function whyOf({ sysctl }: Patient): string {
  const why =
    "a drop is final, also where other tables accept: containers reach nothing beyond their bridge, published ports do not answer"
  return sysctl("net/bridge/bridge-nf-call-iptables") === "1"
    ? `${why}; net/bridge/bridge-nf-call-iptables is 1: frames between containers of one bridge are dropped too`
    : why
}

/** Where a program wants to be told, in words. */
function hintOf(maker: string | undefined, device: string): string {
  if (maker === "docker") return `: its chain DOCKER-USER is for rules such as "-i ${device} -j ACCEPT"`
  if (maker === "firewalld") return `: "${device}" belongs into a zone that forwards, such as trusted`
  return maker === "ufw" ? `: "ufw route allow in on ${device}" and "out on ${device}" say so` : ""
}

/** The program that owns the rules of a table, by its chains' names. */
function makerOf({ rules, bases }: FilterView, table: string): string | undefined {
  if (table === "firewalld") return "firewalld"
  const inTable = rules.filter(({ chain }) => chain.table.name === table)
  const names = [...inTable.map(({ chain }) => chain.name), ...inTable.flatMap(jumpOf)]
  names.push(...bases.filter((base) => base.table.name === table).map(({ name }) => name))
  const signs = { docker: /^DOCKER/, ufw: /^ufw-/, "kube-proxy": /^KUBE-/ }
  return Object.entries(signs).find(([, sign]) => names.some((name) => sign.test(name)))?.[0]
}

function jumpOf(rule: Rule): string[] {
  const verdict = verdictOf(rule)
  return typeof verdict === "object" ? [verdict.jump] : []
}
