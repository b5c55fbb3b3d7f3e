import type { Affected, Finding } from "./finding.ts"
import { Command, inOneLine } from "./remedy.ts"

/** Joins findings with the same rule and cause into one, and drops findings that are consequences of others. */
export function byCause(findings: readonly Finding[]): Finding[] {
  const groups = new Map<string, Finding[]>()
  for (const finding of withoutConsequences(findings)) groups.getOrInsert(keyOf(finding, groups.size), []).push(finding)
  return [...groups.values()].map(merged)
}

/** Returns the key of findings to join. It differs if one sentence cannot describe both: an error and a warning. */
function keyOf({ rule, cause, severity, isFixable, remedy }: Finding, at: number): string {
  const kind = `${rule} ${severity} ${isFixable === true} ${remedy instanceof Command}`
  return cause === undefined ? `${kind} ${at} alone` : `${kind} of ${cause}`
}

function withoutConsequences(findings: readonly Finding[]): Finding[] {
  const byRule = Map.groupBy(findings, ({ rule }) => rule)
  return findings.flatMap((finding): Finding[] => {
    const causes = (finding.consequenceOf ?? []).flatMap((rule) => byRule.get(rule) ?? [])
    const { affected = [] } = finding
    const ofAll = causes.filter((cause) => affected.length === 0 || (cause.affected ?? []).length === 0)
    if (ofAll.some((cause) => isOfNetwork(cause, finding))) return []
    const explained = new Set(causes.flatMap((cause) => (cause.affected ?? []).map(({ name }) => name)))
    const left = affected.filter(({ name }) => !explained.has(name))
    if (left.length === affected.length) return [finding]
    return left.length === 0 ? [] : [{ ...finding, affected: left }]
  })
}

/** Reports whether two findings concern the same network. A finding without a network concerns all networks. */
function isOfNetwork({ network }: Finding, other: Finding): boolean {
  return network === undefined || other.network === undefined || network === other.network
}

function merged(findings: readonly Finding[]): Finding {
  const [first] = findings
  if (first === undefined) throw new TypeError("a group has at least one finding")
  if (findings.length === 1) return first
  const byName = Map.groupBy(
    findings.flatMap(({ affected = [] }) => affected),
    ({ name }) => name,
  )
  const { network, ...rest } = first
  const isOfOne = findings.every((each) => each.network === network)
  return {
    ...rest,
    ...(isOfOne && network !== undefined ? { network } : {}),
    affected: [...byName.values()].flatMap(asOne),
    remedy: mergedRemedy(findings),
  }
}

/** Joins entries of one affected object into one entry with all their details. */
function asOne(alike: readonly Affected[]): Affected[] {
  const details = new Set(alike.flatMap(({ detail }) => detail ?? []))
  return alike.slice(0, 1).map((one) => (details.size === 0 ? one : { ...one, detail: [...details].join(", ") }))
}

function mergedRemedy(findings: readonly Finding[]): Finding["remedy"] {
  const commands = findings.flatMap(({ remedy }) => (remedy instanceof Command ? [remedy] : []))
  if (commands.length > 0) return inOneLine(commands)
  return [...new Set(findings.map(({ remedy }) => String(remedy)))].slice(0, EXAMPLES).join("; ")
}

/** The number of affected objects, or remedies, that a joined finding names. */
const EXAMPLES = 3

/** Returns the fault in words. If several objects are affected, gives their number instead of their names. */
export function sentenceOf({ affected = [], what, ofMany }: Finding): string {
  return affected.length > 1 && ofMany ? ofMany(affected.length) : what
}

/** Returns the fault in words, and the names of three affected objects, or of all if `isWhole`. */
export function describe(finding: Finding, isWhole = false): string {
  const { affected = [], what, ofMany } = finding
  if (affected.length < 2) return what
  if (ofMany) return `${sentenceOf(finding)}: ${namesOf(affected, isWhole)}`
  return `${what}; and ${affected.length - 1} more: ${namesOf(affected.slice(1), isWhole)}`
}

function namesOf(affected: readonly Affected[], isWhole: boolean): string {
  const names = affected.map(({ name, detail }) => (detail === undefined ? name : `${name}: ${detail}`))
  const isDetailed = affected.some(({ detail }) => detail !== undefined)
  const between = isDetailed ? "; " : ", "
  if (isWhole || names.length <= EXAMPLES) return names.join(between)
  const rest = `${isDetailed ? ";" : ""} and ${names.length - EXAMPLES} more`
  return `${names.slice(0, EXAMPLES).join(between)}${rest}`
}
