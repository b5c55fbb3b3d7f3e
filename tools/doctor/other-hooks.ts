import { chainsAt, comparesWith, type FilterView, verdictOf } from "../node/mod.ts"
import { valuesOf } from "./filters.ts"
import { affectedBy, type Check, type Finding, type Patient } from "./finding.ts"
import { inOneLine, sh } from "./remedy.ts"

type Rule = FilterView["rules"][number]

/** `NFT_CMP_EQ`, <linux/netfilter/nf_tables.h> */
const EQUAL = 0
/** <linux/netfilter/nf_tables.h>: nft asks for the family before an address in a table of family inet. */
const NFT_META_NFPROTO = 15
/** What a rule may have that drops, or does not track, all that containers send or get. */
const PLAIN = new Set(["meta", "payload", "cmp", "bitwise", "counter", "log", "immediate", "reject", "notrack"])

/** Rules of others at the hooks before and after routing that drop all packets of containers, or keep them out of conntrack. */
export const checkOtherHooks: Check = (patient) => {
  const { filter, attachments } = patient
  if (!filter || attachments.length === 0) return []
  const values = valuesOf(patient)
  const bases = filter.bases.filter(
    ({ hook, type, table }) =>
      (hook === "prerouting" || hook === "postrouting") &&
      type === "filter" &&
      table.family !== "bridge" &&
      !/^cni_/.test(table.name),
  )
  return bases.flatMap((base) => {
    const chains = chainsAt(filter, base)
    const rules = filter.rules.filter(
      ({ chain: { table, name } }) =>
        table.name === base.table.name && table.family === base.table.family && chains.includes(name),
    )
    const meant = rules.filter((rule) => isAboutContainersAlone(rule, values))
    const place = `table ${base.table.family} ${base.table.name}, chain ${base.name}`
    return [...dropsOf(meant, place, patient), ...untrackedBy(meant, place, patient)]
  })
}

function dropsOf(meant: readonly Rule[], place: string, { attachments }: Patient): Finding[] {
  const rules = meant.filter((rule) => verdictOf(rule) === "drop")
  if (rules.length === 0) return []
  const what = `a rule in ${place} drops packets of containers: ${rules.map(shown).join("; ")}`
  return [
    {
      rule: "forward-drop-rule",
      severity: "error",
      cause: place,
      affected: attachments.map(affectedBy),
      what,
      ofMany: () => what,
      why: "it is asked before or after routing, and a drop is final: containers reach nothing by the host",
      remedy: inOneLine(rules.map(deletionOf)),
    },
  ]
}

function untrackedBy(meant: readonly Rule[], place: string, { attachments }: Patient): Finding[] {
  const rules = meant.filter(({ expressions }) => expressions.some(({ name }) => name === "notrack"))
  if (rules.length === 0) return []
  const what = `a rule in ${place} keeps packets of containers out of connection tracking: ${rules.map(shown).join("; ")}`
  return [
    {
      rule: "not-tracked",
      severity: "error",
      cause: place,
      affected: attachments.map(affectedBy),
      what,
      ofMany: () => what,
      why: "masquerade and published ports work on connections that are tracked: these packets leave with the container's own address",
      remedy: inOneLine(rules.map(deletionOf)),
    },
  ]
}

/** Whether all that a rule compares are interfaces and addresses of containers, so that no port or protocol is left out. */
function isAboutContainersAlone(rule: Rule, values: readonly Uint8Array[]): boolean {
  const compared = rule.expressions.flatMap((each, at) => (each.name === "cmp" ? [at] : []))
  const isMeant = (at: number) => {
    const one = rule.expressions[at]
    if (one?.name !== "cmp" || one.data instanceof Uint8Array || (one.data.op ?? EQUAL) !== EQUAL) return false
    // What it loads stands before it: one byte may be the start of an address.
    return comparesWith({ ...rule, expressions: rule.expressions.slice(Math.max(0, at - 1), at + 1) }, values)
  }
  const isFamily = (at: number) => {
    const before = rule.expressions[at - 1]
    return before?.name === "meta" && !(before.data instanceof Uint8Array) && before.data.key === NFT_META_NFPROTO
  }
  return (
    rule.expressions.every(({ name }) => PLAIN.has(name)) &&
    compared.some(isMeant) &&
    compared.every((at) => isMeant(at) || isFamily(at))
  )
}

function shown({ chain, handle }: Rule): string {
  return `chain ${chain.name}, handle ${handle}`
}

function deletionOf({ chain: { table, name }, handle }: Rule) {
  return sh`nft delete rule ${[table.family, table.name, name]} handle ${String(handle)}`
}
