import { encodeUtf8 } from "../../../pkg/engine/mod.ts"
import { isErrno } from "../../../pkg/libc/mod.ts"
import type { NetlinkSocket } from "../../../pkg/netlink/mod.ts"
import { add, atomically, commit, type Element, ifnameValue, remove } from "../../../pkg/nftables/mod.ts"
import { isGone } from "../gone.ts"
import type { Request } from "../request.ts"
import { addConditional } from "./conditions.ts"
import { endBytes, type Group } from "./elements.ts"
import { layoutOf } from "./layout.ts"
import { decodeNote } from "./note.ts"
import { type MissingRules, planAdd, planNew } from "./plan.ts"
import { removeEmptyTables, removeHostports, type Tools } from "./remove.ts"
import { isComplete, listHairpinPrefixes, readState } from "./state.ts"
import { type Wanted, wantedOf } from "./wanted.ts"

/** What an ADD has changed. */
export interface Exchange {
  created: readonly Group[]
  replaced: readonly Group[]
}

/** Nothing was in the way, so that all that is there now is what was made. */
const UNKNOWN: Exchange = { created: [], replaced: [] }

/**
 * Maps the ports, all in one transaction: `nft add element ip cni_hostports ports { tcp . 8080 comment
 * "network/containerID/ifname" : 10.1.0.2 . 80 }` and so on, with table, chains, maps and rules where they are missing.
 * Doing it again changes nothing; what this owner, or one who is gone, has left in the way is replaced. Answers what has
 * changed, for `takeBackHostports`. Throws `CniError` that names the holder of a port that is taken, or `NetlinkError`, and
 * then nothing has changed.
 */
export function addHostports(socket: NetlinkSocket, request: Request): Exchange {
  const wanted = wantedOf(request)
  const isConditional = wanted.some(({ conditions }) => conditions !== "")
  if (!isConditional && addToComplete(socket, wanted)) return UNKNOWN
  let exchange: Exchange = UNKNOWN
  const plan = () => {
    const plans = wanted.map((each) => {
      const state = readState(socket, each.layout, needlesOf(each))
      return planAdd(each, state, findMissingRules(socket, each), isHolderGone)
    })
    exchange = {
      created: plans.flatMap(({ created }) => created),
      replaced: plans.flatMap(({ replaced }) => replaced),
    }
    return plans.flatMap(({ operations }) => operations)
  }
  if (isConditional) addConditional(wanted, plan)
  else atomically(socket, plan)
  return exchange
}

/** Undoes `addHostports`: puts back what was there, or takes out all that this owner has. Throws `NetlinkError`. */
export function takeBackHostports(tools: Tools, { owner, mappings, localnetLink }: Request, exchange: Exchange): void {
  const { socket } = tools
  const { created, replaced } = exchange
  if (replaced.length === 0) {
    removeHostports(tools, owner, mappings)
  } else {
    commit(socket, [
      ...created.map(({ set, elements }) => remove.elements(set, elements)),
      ...replaced.map(({ set, elements }) => add.elements(set, elements)),
    ])
    removeEmptyTables(socket)
  }
  if (localnetLink !== undefined) forgetLocalnetLink(socket, localnetLink)
}

/** It is still off, so nobody needs to know that it was. */
function forgetLocalnetLink(socket: NetlinkSocket, link: string): void {
  const { localnetLinks } = layoutOf("ip")
  try {
    if (localnetLinks) commit(socket, [remove.elements(localnetLinks, [{ key: [ifnameValue(link)] }])])
  } catch (error) {
    if (!isErrno(error, "ENOENT")) throw error
  }
}

/**
 * Adds the elements where everything else is in place and nothing in the way, which is nearly always. What it sends
 * depends on nothing that it has read, so others' transactions are no reason to begin again.
 */
function addToComplete(socket: NetlinkSocket, wanted: readonly Wanted[]): boolean {
  if (!wanted.every(({ layout, hairpinPrefix }) => isComplete(socket, layout, hairpinPrefix))) return false
  try {
    commit(socket, wanted.flatMap(planNew))
    return true
  } catch (error) {
    if (isErrno(error, "EEXIST", "ENOTEMPTY", "ENOENT")) return false
    throw error
  }
}

function findMissingRules(socket: NetlinkSocket, { layout, hairpinPrefix }: Wanted): MissingRules {
  const own = hairpinPrefix === undefined ? [] : [hairpinPrefix]
  if (isComplete(socket, layout, hairpinPrefix)) return { isBroken: false, hairpinPrefixes: [] }
  if (isComplete(socket, layout, undefined)) return { isBroken: false, hairpinPrefixes: own }
  return { isBroken: true, hairpinPrefixes: [...new Set([...listHairpinPrefixes(socket, layout), ...own])] }
}

/** What all that may be in the way has somewhere in it: the owner's name, the container's address, or one of the ports. */
function needlesOf({ comment, part }: Wanted): Uint8Array[] {
  return [encodeUtf8(comment), part.address.ip, ...part.mappings.map(endBytes)]
}

function isHolderGone({ comment = "", note }: Element): boolean {
  return isGone(comment, decodeNote(note)?.netns ?? "")
}
