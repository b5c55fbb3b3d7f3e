import { encodeUtf8 } from "../../../pkg/engine/mod.ts"
import type { NetlinkSocket } from "../../../pkg/netlink/mod.ts"
import {
  atomically,
  type Element,
  keyIn,
  LineChanges,
  Lines,
  membersOf,
  type Operation,
  remove,
  removeEmptied,
} from "../../../pkg/nftables/mod.ts"
import { isOwnerOf, type Owner, ownerComment } from "../../../pkg/types/mod.ts"
import { families, type Mapping } from "../mapping.ts"
import { promotionRules, removalOf } from "./conditions.ts"
import { type Found, readMapping } from "./elements.ts"
import { layoutOf } from "./layout.ts"
import { guardOnly, readRecord, switchOff } from "./localnet.ts"
import { type Doomed, hasOnly, lookUp, type Sockets } from "./look-up.ts"
import { ownedSets, readState } from "./state.ts"

/** What a removal works with. */
export interface Tools extends Sockets {
  /** Whether the interfaces of `localnet_links` are needed by others; asked when the last mapping goes. */
  isLocalnetNeeded(): boolean
}

/**
 * Removes the mappings of this attachment, found by its name alone, in one transaction; what stands by for them comes into
 * force, and the last one takes the table along. `mappings`, which may be wrong, are where it looks first: if it finds all
 * there, that costs the same with one mapping on the host and with thousands. Answers what was removed; nothing there is
 * success. Throws `NetlinkError`.
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

/** Removes the tables in which no mapping is left. Throws `NetlinkError`. */
export function removeEmptyTables(tools: Tools): void {
  removeFound(tools, () => search(tools.socket, () => false, []))
}

/** Everything with a comment that `isGone`; all of it has one of `needles` in it. */
function search(
  socket: NetlinkSocket,
  isGone: (comment: string) => boolean,
  needles?: readonly Uint8Array[],
): Doomed[] {
  const isDoomed = ({ comment }: { comment?: string | undefined }) => comment !== undefined && isGone(comment)
  return families.flatMap((family): Doomed[] => {
    const layout = layoutOf(family)
    const lines = new Lines(socket)
    if (lines.namesIn(layout.table).length === 0) return []
    const { found, conditions } = readState(socket, lines, layout, needles)
    const changes = new LineChanges()
    const elements: Element[] = []
    let left = 0
    for (const set of ownedSets(layout)) {
      const [inForce, standingBy] = [found.get(set), found.get(set.standby)]
      const gone = inForce?.elements.filter(isDoomed) ?? []
      left += (inForce?.count ?? 0) - gone.length
      const keys = new Map([...gone, ...(standingBy?.elements.filter(isDoomed) ?? [])].map(keyed(set)))
      for (const element of keys.values()) {
        elements.push(element)
        const alone = { set, key: element.key, members: [element] as const }
        const line = standingBy ? lines.find(set, element.key) : alone
        changes.change(
          line,
          membersOf(line).filter((one) => !isDoomed(one)),
        )
      }
    }
    const rules = conditions.filter(isDoomed)
    const isLast = left === 0 && changes.promoted.length === 0
    return [{ layout, changes, elements, conditions: rules, isLast, isGuardOnly: found.size === 0 }]
  })
}

/** By its key in the set, without its place in the line. */
function keyed(set: Parameters<typeof keyIn>[0]): (element: Element) => [string, Element] {
  return (element) => {
    const key = keyIn(set, element)
    return [String(key), { ...element, key }]
  }
}

function removeFound(tools: Tools, find: () => Doomed[]): Found[] {
  let doomed: Doomed[] = []
  let off: readonly string[] = []
  const keepOff = (links: readonly string[]) => {
    // Before the table goes, and with it the record; when the removal is refused because a new mapping came in between,
    // it is needed again.
    switchOff(links, off)
    off = links
  }
  atomically(tools.socket, () => {
    doomed = find()
    if (!doomed.some(({ layout, isLast }) => layout.guard && isLast)) keepOff([])
    return doomed.flatMap((each) => (each.isLast ? removeTable(tools, each, keepOff) : removal(tools, each)))
  })
  return doomed.flatMap(({ elements }) => elements.flatMap((one) => readMapping(one) ?? []))
}

/** Takes out the table, but for the guard if it is needed still. */
function removeTable(
  tools: Tools,
  { layout, isGuardOnly }: Doomed,
  keepOff: (links: readonly string[]) => void,
): Operation[] {
  if (!layout.guard) return [remove.table(layout.table)]
  const { links, guarded } = readRecord(tools.socket, layout)
  const isNeeded = links.length > 0 && tools.isLocalnetNeeded()
  keepOff(isNeeded ? [] : links)
  if (!isNeeded && guarded.length === 0) return [remove.table(layout.table)]
  if (isGuardOnly && (isNeeded || links.length === 0)) return []
  return [remove.table(layout.table), ...guardOnly(layout, { links: isNeeded ? links : [], guarded })]
}

function removal(tools: Tools, { layout, changes, elements, conditions }: Doomed): Operation[] {
  const { socket } = tools
  return [
    ...removalOf(socket, layout, conditions, elements),
    ...changes.operations,
    ...promotionRules(socket, layout, changes),
    ...removeEmptied(changes, (set, count) => hasOnly(tools, set, count)),
  ]
}
