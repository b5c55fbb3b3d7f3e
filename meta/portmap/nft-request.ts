import { type Owner, ownerComment } from "../../pkg/types/mod.ts"
import { elementsOf, type Group } from "./nft-elements.ts"
import { type Layout, layoutOf } from "./nft-layout.ts"
import { encodeNote } from "./note.ts"
import type { Part } from "./parts.ts"

/** What is to be mapped, for whom. */
export interface Request {
  owner: Owner
  /** The path of the container's namespace. */
  netns: string
  parts: readonly Part[]
  snat: boolean
  masqAll: boolean
  /** What packets must meet besides, in nft's words, by family; none where there are no words. */
  conditions: { readonly ip: readonly string[]; readonly ip6: readonly string[] }
  /** The interface whose `route_localnet` is off, and is to go off again with the last mapping. */
  localnetLink: string | undefined
}

/** A request for one family, as elements. */
export interface Wanted {
  layout: Layout
  comment: string
  part: Part
  groups: readonly Group[]
  /** "" for none. */
  conditions: string
  localnetLink: string | undefined
}

export function wantedOf({ owner, netns, parts, snat, masqAll, conditions, localnetLink }: Request): Wanted[] {
  const comment = ownerComment(owner)
  const of = parts.reduce((sum, { mappings }) => sum + mappings.length, 0)
  const conditional = parts.some(({ family }) => conditions[family].length > 0)
  const note = encodeNote({ of, conditional, netns })
  return parts.map((part) => {
    const layout = layoutOf(part.family)
    return {
      layout,
      comment,
      part,
      groups: elementsOf(layout, part, { snat, masqAll }, { comment, note }),
      conditions: conditions[part.family].join(" "),
      localnetLink: part.family === "ip" ? localnetLink : undefined,
    }
  })
}
