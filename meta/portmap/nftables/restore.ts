import type { NetlinkSocket } from "../../../pkg/netlink/mod.ts"
import { add, type Element, KeyQueues, type Operation, PlannedQueues } from "../../../pkg/nftables/mod.ts"
import type { Restored } from "../../../pkg/rules/mod.ts"
import { families, type PortmapSpec } from "../mapping.ts"
import { isHolderGone } from "../port-holder.ts"
import { addLocalnetEntry, type LocalnetEntry, unrecordedLocalnetEntry } from "../route-localnet.ts"
import { decodeNote, type TableSpec, tableSpecs } from "./elements.ts"
import { replaceTable } from "./find.ts"
import { mayShare, taken } from "./plan.ts"
import { isComplete, tableLayout } from "./table.ts"

/**
 * Plans what is missing of the mappings of many attachments, and what became of each. A port that another container has by now stays
 * that one's, and the others of the attachment are mapped. Not for mappings with conditions, which are rules. Throws `NetlinkError`.
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
    const { rules, lacking } = missingRules(socket, ours)
    const records = new Map<string | undefined, LocalnetEntry | undefined>()
    for (const { spec, at } of ours) {
      const entry = records.getOrInsertComputed(spec.localnetLink, (link) =>
        unrecordedLocalnetEntry(socket, layout, link),
      )
      const isLacking = entry !== undefined || lacking(spec)
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

/** The rules that one table lacks, and for which of these attachments. */
function missingRules(
  socket: NetlinkSocket,
  specs: readonly { spec: TableSpec }[],
): { rules: Operation[]; lacking: (spec: TableSpec) => boolean } {
  const prefixes = [...new Set(specs.flatMap(({ spec }) => spec.hairpinPrefix ?? []))]
  const layout = specs[0]?.spec.layout
  if (!layout) return { rules: [], lacking: () => false }
  if (!isComplete(socket, layout, undefined))
    return {
      rules: replaceTable(socket, layout, prefixes),
      lacking: () => true,
    }
  const missing = prefixes.filter((prefix) => !isComplete(socket, layout, prefix))
  return {
    rules: missing.map((prefix) => add.rule(layout.hairpinRule(prefix))),
    lacking: ({ hairpinPrefix }) => hairpinPrefix !== undefined && missing.includes(hairpinPrefix),
  }
}

function isGone({ comment, note }: Element): boolean {
  return isHolderGone(comment, decodeNote(note)?.netns)
}
