import { encodeUtf8 } from "../../../pkg/engine/mod.ts"
import type { NetlinkSocket } from "../../../pkg/netlink/mod.ts"
import { atomically, type Operation, remove } from "../../../pkg/nftables/mod.ts"
import { isOwnerOf, type Owner, ownerComment } from "../../../pkg/types/mod.ts"
import { switchLocalnet } from "../host-link.ts"
import { families, type Mapping } from "../mapping.ts"
import { type Found, readMapping } from "./elements.ts"
import { layoutOf } from "./layout.ts"
import { type Doomed, lookUp, type Sockets } from "./look-up.ts"
import { removalOf } from "./plan.ts"
import { listLocalnetLinks, readState } from "./state.ts"

/** What a removal works with. */
export interface Tools extends Sockets {
  /** Whether the interfaces of `localnet_links` are needed by others; asked when the last mapping goes. */
  isLocalnetNeeded(): boolean
}

/**
 * Removes the mappings of this attachment, found by its name alone, in one transaction; the last one takes the table along.
 * `mappings`, which may be wrong, are where it looks first: if it finds all there, that costs the same with one mapping on
 * the host and with thousands. Answers what was removed; nothing there is success. Throws `NetlinkError`.
 */
export function removeHostports(tools: Tools, owner: Owner, mappings: readonly Mapping[]): Found[] {
  const comment = ownerComment(owner)
  const needles = [encodeUtf8(comment)]
  const isOurs = (found: string) => found === comment
  return removeFound(tools, () => lookUp(tools, comment, mappings) ?? search(tools.socket, isOurs, needles))
}

/** Removes the mappings of all attachments to this network but the valid ones, like `removeHostports`. */
export function gcHostports(tools: Tools, network: string, validOwners: readonly Owner[]): Found[] {
  const valid = new Set(validOwners.map(ownerComment))
  const isStale = (found: string) => isOwnerOf(found, network) && !valid.has(found)
  return removeFound(tools, () => search(tools.socket, isStale))
}

/** Everything with a comment that `isGone`; all of it has one of `needles` in it. */
function search(
  socket: NetlinkSocket,
  isGone: (comment: string) => boolean,
  needles?: readonly Uint8Array[],
): Doomed[] {
  return families.flatMap((family): Doomed[] => {
    const layout = layoutOf(family)
    const state = readState(socket, layout, needles)
    if (!state) return []
    const groups = [...state.found].map(([set, { elements }]) => {
      return { set, elements: elements.filter(({ comment }) => comment !== undefined && isGone(comment)) }
    })
    const total = [...state.found.values()].reduce((sum, { count }) => sum + count, 0)
    const isLast = total === groups.reduce((sum, { elements }) => sum + elements.length, 0)
    const conditions = state.conditions.filter(({ comment }) => comment !== undefined && isGone(comment))
    return [{ layout, groups: groups.filter(({ elements }) => elements.length > 0), conditions, isLast }]
  })
}

function removeFound({ socket, isLocalnetNeeded }: Tools, find: () => Doomed[]): Found[] {
  let doomed: Doomed[] = []
  let switchedOff: string[] = []
  atomically(socket, () => {
    doomed = find()
    // Before the table goes, and with it the record; when the removal is refused because a new mapping came in between,
    // it is needed again.
    const isOver = doomed.some(({ layout, isLast }) => layout.localnetLinks !== undefined && isLast)
    const links = isOver ? listLocalnetLinks(socket, layoutOf("ip")) : []
    for (const link of switchedOff) if (!links.includes(link)) switchLocalnet(link, true)
    switchedOff = links.length > 0 && !isLocalnetNeeded() ? links : []
    for (const link of switchedOff) switchLocalnet(link, false)
    return doomed.flatMap(removal)
  })
  return doomed.flatMap(({ groups }) =>
    groups.flatMap(({ elements }) => elements.flatMap((one) => readMapping(one) ?? [])),
  )
}

/** Removes the tables in which no mapping is left. Throws `NetlinkError`. */
export function removeEmptyTables(socket: NetlinkSocket): void {
  atomically(socket, () =>
    families.flatMap((family) => {
      const layout = layoutOf(family)
      const state = readState(socket, layout, [])
      const isEmpty = state && [...state.found.values()].every(({ count }) => count === 0)
      return isEmpty ? [remove.table(layout.table)] : []
    }),
  )
}

function removal({ layout, groups, conditions, isLast }: Doomed): Operation[] {
  if (isLast) return [remove.table(layout.table)]
  return [...removalOf(conditions), ...groups.map(({ set, elements }) => remove.elements(set, elements))]
}
