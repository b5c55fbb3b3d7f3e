import { type Owner, ownerComment } from "../../../pkg/types/mod.ts"
import type { Part } from "../parts.ts"
import type { Request } from "../request.ts"
import { elementsOf, type SharedGroup } from "./elements.ts"
import { type Layout, layoutOf } from "./layout.ts"
import { encodeNote } from "./note.ts"

/** A request for one family, as elements. */
export interface Wanted {
  layout: Layout
  owner: Owner
  comment: string
  part: Part
  groups: readonly SharedGroup[]
  /** The length for which there has to be a rule for the container's own network; undefined for none. */
  hairpinPrefix: number | undefined
  /** "" for none. */
  conditions: string
  localnetLink: string | undefined
}

export function wantedOf({ owner, netns, parts, snat, masqAll, conditions, localnetLink }: Request): Wanted[] {
  const comment = ownerComment(owner)
  const isConditional = parts.some(({ family }) => conditions[family].length > 0)
  const bare = parts.map((part) => {
    const layout = layoutOf(part.family)
    return { part, layout, groups: elementsOf(layout, part, { snat, masqAll }) }
  })
  const of = bare.reduce((sum, { groups }) => groups.reduce((sum, { elements }) => sum + elements.length, sum), 0)
  return bare.map(({ part, layout, groups }) => {
    const about = { comment, note: encodeNote({ of, isConditional, prefix: part.address.prefix, netns }) }
    return {
      layout,
      owner,
      comment,
      part,
      hairpinPrefix: snat && !masqAll ? part.address.prefix : undefined,
      groups: groups.map(({ set, elements }) => ({ set, elements: elements.map((one) => ({ ...one, ...about })) })),
      conditions: conditions[part.family].join(" "),
      localnetLink: part.family === "ip" ? localnetLink : undefined,
    }
  })
}
