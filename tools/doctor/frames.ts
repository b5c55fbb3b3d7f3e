import { chainsAt, comparesWith, type FilterView, isUnconditional, verdictOf } from "../node/mod.ts"
import { valuesOf } from "./filters.ts"
import type { Check, Finding, Patient } from "./finding.ts"
import { type Command, sh } from "./remedy.ts"

type Rule = FilterView["rules"][number]
type Expression = Rule["expressions"][number]

/** ETH_P_ARP, <linux/if_ether.h> */
const ARP = "08:06"
/** `NFT_CMP_EQ`, <linux/netfilter/nf_tables.h> */
const EQUAL = 0

/** Chains of family bridge that drop the frames of containers: a base chain's policy, or a rule for a port, an address or all. */
export const checkFrames: Check = (patient) => {
  const { filter } = patient
  if (!filter || patient.examined.every(({ one }) => one.link?.master === undefined)) return []
  const isMeant = mentioning(patient)
  const bases = filter.bases.filter(
    ({ table, type }) => table.family === "bridge" && type === "filter" && !/^cni_/.test(table.name),
  )
  return bases.flatMap((base): Finding[] => {
    const chains = chainsAt(filter, base)
    const rules = filter.rules.filter(
      ({ chain }) =>
        chain.table.family === "bridge" && chain.table.name === base.table.name && chains.includes(chain.name),
    )
    const accepted = rules.some((rule) => verdictOf(rule) === "accept" && (isUnconditional(rule) || isMeant(rule)))
    const dropped = rules.find(
      (rule) =>
        verdictOf(rule) === "drop" &&
        (isMeant(rule) || (isUnconditional(rule) && rule.chain.name === base.name && !accepted)),
    )
    const { name } = base.table
    if (dropped)
      return [
        finding(
          `a rule in table bridge ${name}, chain ${dropped.chain.name}, drops frames of containers: handle ${dropped.handle}`,
          sh`nft delete rule bridge ${name} ${dropped.chain.name} handle ${String(dropped.handle)}`,
        ),
      ]
    if (base.policy === "accept" || accepted) return []
    return [
      finding(
        `table bridge ${name}, chain ${base.name}, drops what no rule of it accepts, and none accepts containers`,
        sh`nft add chain bridge ${name} ${base.name} ${"{ policy accept; }"}`,
      ),
    ]
  })
}

function finding(what: string, remedy: Command): Finding {
  return {
    rule: "frames-dropped",
    severity: "error",
    what,
    why: "frames between containers of the bridge, or between them and their gateway, do not arrive",
    remedy,
  }
}

/** Whether all that a rule compares is a port, an address or a MAC of containers, or that it is ARP; not with what is unequal: a check of MACs. */
function mentioning(patient: Patient): (rule: Rule) => boolean {
  const values = valuesOf(patient)
  const macs = new Set(patient.examined.flatMap(({ interfaces }) => interfaces.flatMap(({ link }) => link?.mac ?? [])))
  const known = new Set(["meta", "payload", "cmp", "counter", "log", "immediate", "reject", "bitwise"])
  return (rule) => {
    const compared = rule.expressions.filter(({ name }) => name === "cmp")
    const isOne = (expression: Expression) => {
      const value = equalTo(expression)
      if (value === undefined || value.length < 6 || value.length > 14)
        return value !== undefined && comparesWith({ ...rule, expressions: [expression] }, values)
      // nft compares parts of the header that are side by side at once: both MACs, a MAC and the type.
      const [first = "", ...others] = partsOf(value)
      return [first, ...others].some((part) => macs.has(part)) && others.every((part) => part === ARP || macs.has(part))
    }
    const isArp = (expression: Expression) => partsOf(equalTo(expression) ?? new Uint8Array(0))[0] === ARP
    return (
      rule.expressions.every(({ name }) => known.has(name)) &&
      compared.some(isOne) &&
      compared.every((each) => isOne(each) || isArp(each))
    )
  }
}

/** MACs, and the rest, as text. */
function partsOf(value: Uint8Array): string[] {
  const bytes = [...value].map((byte) => byte.toString(16).padStart(2, "0"))
  return [0, 6, 12].flatMap((at) => (at < bytes.length ? [bytes.slice(at, at + 6).join(":")] : []))
}

/** The value that something of the frame has to be equal to. */
function equalTo({ name, data }: Expression): Uint8Array | undefined {
  if (name !== "cmp" || data instanceof Uint8Array || (data.op ?? EQUAL) !== EQUAL) return undefined
  return data.data?.value
}
