import { encodeUtf8 } from "../../../pkg/engine/mod.ts"
import { isErrno } from "../../../pkg/libc/mod.ts"
import type { NetlinkSocket } from "../../../pkg/netlink/mod.ts"
import {
  add,
  atomically,
  commit,
  type Element,
  type Group,
  keyIn,
  type Line,
  LineChanges,
  Lines,
  membersOf,
  type Operation,
  remove,
} from "../../../pkg/nftables/mod.ts"
import { isGone } from "../gone.ts"
import { isLocalnetOn } from "../host-link.ts"
import type { Request } from "../request.ts"
import { addConditional, promotionRules, removalOf } from "./conditions.ts"
import { forgetEntry, type LocalnetEntry, missingEntry, recordEntry } from "./localnet.ts"
import { decodeNote } from "./note.ts"
import { type AddPlan, isStale, mayShare, planAdd, planNew, skeleton } from "./plan.ts"
import { removeEmptyTables, removeHostports, type Tools } from "./remove.ts"
import { isComplete, listHairpinPrefixes, ownedSets, readState } from "./state.ts"
import { type Wanted, wantedOf } from "./wanted.ts"

/** What an ADD has changed. */
export interface Exchange {
  created: readonly Group[]
  replaced: readonly Group[]
  /** What it has written down about the setting `route_localnet`. */
  entries: readonly LocalnetEntry[]
  /** The addresses that the ports lead to for which these mappings stand by. */
  ahead: readonly Uint8Array[]
}

/**
 * Maps the ports, all in one transaction: `nft add element ip cni_hostports ports { tcp . 8080 comment
 * "network/containerID/ifname" : 10.1.0.2 . 80 }` and so on, with table, chains, maps and rules where they are missing.
 * Doing it again changes nothing; what this owner, or one who is gone, has left in the way is replaced; a port that another
 * attachment of the container has stays there, and this one stands by. Answers what has changed, for `takeBackHostports`.
 * Throws `CniError` that names the holder of a port that is taken, or `NetlinkError`, and then nothing has changed.
 */
export function addHostports(socket: NetlinkSocket, request: Request): Exchange {
  const wanted = wantedOf(request)
  const isConditional = wanted.some(({ conditions }) => conditions !== "")
  const simple = isConditional ? undefined : addToComplete(socket, wanted)
  if (simple) return simple
  let planned: Planned = NOTHING
  const plan = () => {
    planned = planAll(socket, wanted)
    return planned
  }
  if (!isConditional) atomically(socket, () => plan().operations)
  else {
    addConditional(wanted, plan)
    if (planned.standingBy.size > 0) closeRanks(socket, wanted)
  }
  return planned
}

interface Planned extends Exchange {
  operations: readonly Operation[]
  standingBy: ReadonlySet<string>
}

const NOTHING: Planned = { operations: [], created: [], replaced: [], entries: [], ahead: [], standingBy: new Set() }

/**
 * Adds the elements where everything else is in place and nothing in the way, which is nearly always. What it sends
 * depends on nothing that it has read, but for `route_localnet`, so others' transactions are no reason to begin again.
 */
function addToComplete(socket: NetlinkSocket, wanted: readonly Wanted[]): Exchange | undefined {
  if (!wanted.every(({ layout, hairpinPrefix }) => isComplete(socket, layout, hairpinPrefix))) return undefined
  const entries = wanted.flatMap(({ layout, localnetLink }) => missingEntry(socket, layout, localnetLink) ?? [])
  try {
    commit(socket, [...wanted.flatMap(planNew), ...entries.flatMap(recordEntry)])
    return { ...NOTHING, entries }
  } catch (error) {
    if (isErrno(error, "EEXIST", "ENOTEMPTY", "ENOENT")) return undefined
    throw error
  }
}

function planAll(socket: NetlinkSocket, wanted: readonly Wanted[]): Planned {
  const parts = wanted.map((each) => planOne(socket, each))
  return {
    operations: parts.flatMap(({ operations }) => operations),
    created: parts.flatMap(({ plan }) => plan.changes.created),
    replaced: parts.flatMap(({ plan }) => plan.changes.removed),
    entries: parts.flatMap(({ entry }) => entry ?? []),
    ahead: parts.flatMap(({ plan }) => plan.ahead),
    standingBy: new Set(parts.flatMap(({ plan }) => [...plan.standingBy])),
  }
}

function planOne(
  socket: NetlinkSocket,
  wanted: Wanted,
): { operations: Operation[]; plan: AddPlan; entry: LocalnetEntry | undefined } {
  const { layout, localnetLink, comment } = wanted
  const lines = new Lines(socket)
  const keys = wanted.groups.flatMap(({ set, elements }) => elements.map(({ key }) => lines.find(set, key)))
  // Only others' ports of the same container, and others' addresses: then this owner has left nothing anywhere.
  const isPlain = keys.every((line) =>
    membersOf(line).every((one) => !isStale(wanted, line.set, one) && mayShare(wanted, line.set, one)),
  )
  const needles = [encodeUtf8(comment), wanted.part.address.ip]
  const state = isPlain && wanted.conditions === "" ? undefined : readState(socket, lines, layout, needles)
  const plan = planAdd(wanted, [...keys, ...(state ? staleLines(wanted, lines, keys, state) : [])], isHolderGone)
  const entry = missingEntry(socket, layout, localnetLink)
  const conditions = (state?.conditions ?? []).filter((rule) => rule.comment === comment)
  const operations = [
    ...missingRules(socket, wanted),
    ...removalOf(socket, layout, conditions, plan.stale),
    ...plan.changes.operations,
    ...promotionRules(socket, layout, plan.changes),
    ...recordEntry(entry),
  ]
  return { operations, plan, entry }
}

/** Where else this owner, and former holders of its address, stand. */
function staleLines(
  wanted: Wanted,
  lines: Lines,
  known: readonly Line[],
  { found }: ReturnType<typeof readState>,
): Line[] {
  const names = new Set(known.map(({ set, key }) => `${set.name} ${key}`))
  const stale: Line[] = []
  for (const set of ownedSets(wanted.layout)) {
    for (const element of [set, set.standby].flatMap((each) => found.get(each)?.elements ?? [])) {
      const key = keyIn(set, element)
      const name = `${set.name} ${key}`
      if (names.has(name) || !isStale(wanted, set, { ...element, key })) continue
      names.add(name)
      stale.push(lines.find(set, key))
    }
  }
  return stale
}

function missingRules(socket: NetlinkSocket, { layout, hairpinPrefix }: Wanted): Operation[] {
  const own = hairpinPrefix === undefined ? [] : [hairpinPrefix]
  if (isComplete(socket, layout, hairpinPrefix)) return []
  if (isComplete(socket, layout, undefined)) return own.map((prefix) => add.rule(layout.hairpinRule(prefix)))
  const prefixes = new Set([...listHairpinPrefixes(socket, layout), ...own])
  return [...skeleton(layout), ...[...prefixes].map((prefix) => add.rule(layout.hairpinRule(prefix)))]
}

/** nft does not know which rule set a plan was made for: who was ahead may have gone meanwhile. */
function closeRanks(socket: NetlinkSocket, wanted: readonly Wanted[]): void {
  atomically(socket, () =>
    wanted.flatMap(({ layout, groups }) => {
      const lines = new Lines(socket)
      const changes = new LineChanges()
      for (const { set, elements } of groups) {
        for (const line of elements.map(({ key }) => lines.find(set, key))) changes.change(line, membersOf(line))
      }
      return [...changes.operations, ...promotionRules(socket, layout, changes)]
    }),
  )
}

function isHolderGone({ comment = "", note }: Element): boolean {
  return isGone(comment, decodeNote(note)?.netns ?? "")
}

/** Undoes `addHostports`: puts back what was there, or takes out all that this owner has. Throws `NetlinkError`. */
export function takeBackHostports(tools: Tools, { owner, mappings }: Request, exchange: Exchange): void {
  const { socket } = tools
  const { created, replaced, entries } = exchange
  // Before the mappings, so that nothing is left to guard. What was switched on meanwhile goes off with the last mapping.
  for (const entry of entries) if (entry.set.name !== LINKS || !isLocalnetOn(entry.link)) forget(socket, entry)
  if (replaced.length === 0) removeHostports(tools, owner, mappings)
  else {
    commit(socket, [
      ...created.map(({ set, elements }) => remove.elements(set, elements)),
      ...replaced.map(({ set, elements }) => add.elements(set, elements)),
    ])
    removeEmptyTables(tools)
  }
}

const LINKS = "localnet_links"

function forget(socket: NetlinkSocket, entry: LocalnetEntry): void {
  try {
    commit(socket, [forgetEntry(entry)])
  } catch (error) {
    if (!isErrno(error, "ENOENT")) throw error
  }
}
