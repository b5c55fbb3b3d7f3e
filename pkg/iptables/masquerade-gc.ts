import { isOwnerOf, type Owner, ownerComment } from "../types/mod.ts"
import { planRemove } from "./masquerade-plan.ts"
import { containerComment, networkComment } from "./names.ts"
import { type Content, commentOf, type Removal, type Rule, targetOf } from "./rule.ts"

/**
 * What goes of the masquerades of a network when only these attachments are valid. Of a container that has a valid one
 * only marked addresses go, of all others everything; other networks stay.
 */
export function planGc<R extends Rule>(found: Content<R>, network: string, validOwners: readonly Owner[]): Removal<R> {
  const valid = new Set(validOwners.map(ownerComment))
  const validContainers = new Set(validOwners.map((owner) => containerComment(owner)))
  const isOwnerGone = (mark: string) => isOwnerOf(mark, network) && !valid.has(mark)
  const removals = found.chains.flatMap((chain) =>
    commentsOf(found, chain, networkComment(network)).map((comment) => {
      const isAddressGone = () => !validContainers.has(comment)
      return planRemove(found, { chain, comment, isOwnerGone, isAddressGone })
    }),
  )
  return { rules: removals.flatMap(({ rules }) => rules), chains: removals.flatMap(({ chains }) => chains) }
}

/** The comments with this beginning on what is in a chain and on what leads to it, each once. */
function commentsOf({ rules }: Content, chain: string, beginning: string): string[] {
  const related = rules.filter((rule) => rule.chain === chain || targetOf(rule) === chain)
  return [...new Set(related.flatMap((rule) => commentOf(rule) ?? []))].filter((text) => text.startsWith(beginning))
}
