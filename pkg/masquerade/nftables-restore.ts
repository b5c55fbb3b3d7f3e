import { type Element, KeyQueues, type Netfilter, type Operation, PlannedQueues } from "../nftables/mod.ts"
import type { Restored } from "../rules/mod.ts"
import { CniError, Code, familyOf, isOwnerOf, ownerComment } from "../types/mod.ts"
import { groupByLayout, placesFor } from "./nftables-layout.ts"
import { hasMasqueradeRules, listPrefixes, skeleton } from "./nftables-plan.ts"
import type { MasqueradeSpec } from "./spec.ts"

/**
 * Plans the operations that restore the addresses of many owners, and returns the outcome for each owner. If another
 * container of the same network now has an address, that address is not changed; other networks may have the same
 * address. Throws `NetlinkError`.
 */
export function planRestore(
  socket: Pick<Netfilter, "dump" | "get">,
  specs: readonly MasqueradeSpec[],
): { operations: Operation[]; became: Restored[] } {
  const became: Restored[] = specs.map(() => "whole")
  const operations = groupByLayout(specs.flatMap(({ addresses }) => addresses)).flatMap(({ layout, addresses }) => {
    const queues = new KeyQueues(socket)
    const planned = new PlannedQueues(socket, queues)
    const isComplete = hasMasqueradeRules(socket, layout, addresses)
    for (const [at, { owner, addresses }] of specs.entries()) {
      const ours = addresses.filter(({ ip }) => familyOf(ip) === layout.family)
      if (ours.length > 0 && !isComplete && became[at] === "whole") became[at] = "missing"
      const standing = (other: Element) =>
        other.comment === undefined ? "stale" : isOwnerOf(other.comment, owner.network) ? "holds" : "shares"
      for (const { set, element } of placesFor(layout, ours, ownerComment(owner))) {
        const claim = planned.claim(set, element, standing)
        if (claim === "missing" && became[at] === "whole") became[at] = claim
        else if (typeof claim !== "string") became[at] = taken(ownerComment(owner), claim.holder)
      }
    }
    const prefixes = [...listPrefixes(queues, layout), ...addresses.map(({ prefix }) => prefix)]
    return [...(isComplete ? [] : skeleton(layout, prefixes)), ...planned.changes.operations]
  })
  return { operations, became }
}

function taken(owner: string, { comment }: Element): CniError {
  const reason = `its address now belongs to "${comment}"`
  return new CniError(Code.Internal, `Cannot restore the masquerade of ${owner}: ${reason}`)
}
