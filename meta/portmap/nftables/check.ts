import { encodeUtf8 } from "../../../pkg/engine/mod.ts"
import type { NetlinkSocket } from "../../../pkg/netlink/mod.ts"
import {
  describeDormant,
  hasChain,
  KeyQueues,
  listRules,
  type NamedSet,
  type Operation,
  PlannedQueues,
  printElement,
  printRule,
} from "../../../pkg/nftables/mod.ts"
import { missingRules, type Restored } from "../../../pkg/rules/mod.ts"
import type { CniError } from "../../../pkg/types/mod.ts"
import { families, type PortmapSpec } from "../mapping.ts"
import { isGone, mayShare, taken } from "./add.ts"
import { conditionsChain } from "./conditions.ts"
import { planRules, type TableSpec, tableSpecs } from "./elements.ts"
import { addLocalnetEntry, type LocalnetEntry, unrecordedLocalnetEntry } from "./localnet-guard.ts"
import { isCompleteAsEver, requiredRules, tableLayout } from "./table.ts"

/**
 * Checks that nf_tables has the mappings of `addHostports`, and that each of them is active, or waits because another
 * attachment of the container has the port. Throws `CniError` with the expected and the found mapping, or
 * `NetlinkError`.
 */
export function checkHostports(socket: NetlinkSocket, portmap: PortmapSpec): void {
  for (const spec of tableSpecs(portmap)) {
    const { layout, comment, groups, hairpinPrefix } = spec
    if (!isCompleteAsEver(socket, layout, hairpinPrefix)) {
      const rules = requiredRules(layout, hairpinPrefix).map((rule) => `"${printRule(rule)}"`)
      throw missing(
        comment,
        `the rules ${rules.join(", ")}`,
        describeDormant(socket, layout.table) ?? "not all of them",
      )
    }
    const queues = new KeyQueues(socket)
    let isInForce = false
    for (const { set, elements } of groups) {
      for (const element of elements) {
        const [first, ...others] = queues.find(set, element.key).members
        const found = [first, ...others].find((one) => one?.comment === comment)
        if (!first || !found || String(found.value) !== String(element.value)) {
          throw missing(comment, printIn(set, printElement(set, element)), first ? printElement(set, first) : "none")
        }
        isInForce ||= set.value !== undefined && found === first
      }
    }
    if (spec.conditions !== undefined) checkConditions(socket, spec, isInForce)
  }
}

/**
 * Checks that a rule jumps to the conditions of an attachment. If its mappings wait, checks only the conditions' chain.
 */
function checkConditions(socket: NetlinkSocket, spec: TableSpec, isInForce: boolean): void {
  const { layout, comment, conditions } = spec
  if (!isInForce && hasChain(socket, conditionsChain(layout, comment))) return
  const rules = listRules(socket, layout.conditions, [encodeUtf8(comment)])
  if (rules.some((rule) => rule.comment === comment)) return
  const { table, name } = layout.conditions
  throw missing(comment, `a rule for "${conditions}" in chain ${table.family} ${table.name} ${name}`, "none")
}

function printIn({ table, name }: NamedSet, element: string): string {
  return `${element} in ${table.family} ${table.name} ${name}`
}

function missing(owner: string, expected: string, found: string): CniError {
  return missingRules(`a port mapping of ${owner}`, expected, found)
}

/**
 * Plans the missing mappings of many attachments, and returns the outcome for each attachment. Leaves a port unchanged
 * if another container has it now, and maps the attachment's other ports. Does not support mappings with conditions,
 * because conditions are rules. Throws `NetlinkError`.
 */
export function planRestore(
  socket: NetlinkSocket,
  portmaps: readonly PortmapSpec[],
): { operations: Operation[]; became: Restored[] } {
  const became: Restored[] = portmaps.map(() => "whole")
  const specs = portmaps.flatMap((portmap, at) => tableSpecs(portmap).map((spec) => ({ spec, at })))
  const operations = families.flatMap((family) => {
    const layout = tableLayout(family)
    const ours = specs.filter(({ spec }) => spec.layout === layout)
    if (ours.length === 0) return []
    const planned = new PlannedQueues(socket, new KeyQueues(socket))
    const prefixes = new Set(ours.flatMap(({ spec }) => spec.hairpinPrefix ?? []))
    const { rules, lacking } = planRules(socket, layout, [...prefixes])
    const records = new Map<string | undefined, LocalnetEntry | undefined>()
    for (const { spec, at } of ours) {
      const entry = records.getOrInsertComputed(spec.localnetLink, (link) =>
        unrecordedLocalnetEntry(socket, layout, link),
      )
      const isLacking =
        entry !== undefined ||
        lacking === "all" ||
        (spec.hairpinPrefix !== undefined && lacking.includes(spec.hairpinPrefix))
      const claims = spec.groups.flatMap(({ set, elements }) =>
        elements.map((one) =>
          planned.claim(set, one, (other) =>
            mayShare(spec, set, other) ? "shares" : isGone(other) ? "stale" : "holds",
          ),
        ),
      )
      const held = claims.find((claim) => typeof claim !== "string")
      if (held) became[at] = taken(spec, held.holder)
      else if (became[at] === "whole" && (isLacking || claims.includes("missing"))) became[at] = "missing"
    }
    return [
      ...rules,
      ...planned.changes.operations,
      ...[...records.values()].flatMap((entry) => (entry ? addLocalnetEntry(entry) : [])),
    ]
  })
  return { operations, became }
}
