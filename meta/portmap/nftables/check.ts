import { encodeUtf8 } from "../../../pkg/engine/mod.ts"
import type { NetlinkSocket } from "../../../pkg/netlink/mod.ts"
import {
  describeDormant,
  hasChain,
  KeyQueues,
  listRules,
  type NamedSet,
  printElement,
  printRule,
} from "../../../pkg/nftables/mod.ts"
import { missingRules } from "../../../pkg/rules/mod.ts"
import type { CniError } from "../../../pkg/types/mod.ts"
import type { PortmapSpec } from "../mapping.ts"
import { conditionsChain } from "./conditions.ts"
import { type TableSpec, tableSpecs } from "./elements.ts"
import { isCompleteAsEver, requiredRules } from "./table.ts"

/**
 * Checks that all is in nf_tables as `addHostports` has left it: in force, or standing by while another attachment of the
 * container has the port. Throws `CniError` that tells what was expected and what was found, or `NetlinkError`.
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

/** Conditions of what stands by are there, and nothing leads to them. */
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
