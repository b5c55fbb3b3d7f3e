import { isErrno } from "../../pkg/libc/mod.ts"
import type { NetlinkSocket } from "../../pkg/netlink/mod.ts"
import { add, atomically, commit, type Element, type Operation } from "../../pkg/nftables/mod.ts"
import { isGone } from "./gone.ts"
import { addConditional } from "./nft-conditions.ts"
import { endBytes, type Group } from "./nft-elements.ts"
import { planAdd, planNew } from "./nft-plan.ts"
import { type Request, type Wanted, wantedOf } from "./nft-request.ts"
import { isComplete, readState } from "./nft-state.ts"
import { decodeNote } from "./note.ts"

/**
 * Maps the ports, all in one transaction: `nft add element ip cni_hostports ports { tcp . 8080 comment
 * "network/containerID/ifname" : 10.1.0.2 . 80 }` and so on, with table, chains, maps and rules where they are missing.
 * Doing it again changes nothing; what this owner, or one who is gone, has left in the way is replaced. Answers what was
 * replaced, for `restoreHostports`. Throws `CniError` that names the holder of a port that is taken, or `NetlinkError`, and
 * then nothing has changed.
 */
export function addHostports(socket: NetlinkSocket, request: Request): Group[] {
  const wanted = wantedOf(request)
  const isConditional = wanted.some(({ conditions }) => conditions !== "")
  if (!isConditional && addToComplete(socket, wanted)) return []
  let replaced: Group[] = []
  const plan = () => {
    const plans = wanted.map((each) => {
      const state = readState(socket, each.layout, needlesOf(each))
      return planAdd(each, state, isComplete(socket, each.layout), isHolderGone)
    })
    replaced = plans.flatMap((each) => each.replaced)
    return plans.flatMap(({ operations }) => operations)
  }
  if (isConditional) addConditional(wanted, plan)
  else atomically(socket, plan)
  return replaced
}

/** Puts back what `addHostports` has replaced. */
export function restoreHostports(socket: NetlinkSocket, replaced: readonly Group[]): void {
  const operations: Operation[] = replaced.map(({ set, elements }) => add.elements(set, elements))
  commit(socket, operations)
}

/**
 * Adds the elements where everything else is in place and nothing in the way, which is nearly always. What it sends
 * depends on nothing that it has read, so others' transactions are no reason to begin again.
 */
function addToComplete(socket: NetlinkSocket, wanted: readonly Wanted[]): boolean {
  if (!wanted.every(({ layout }) => isComplete(socket, layout))) return false
  try {
    commit(socket, wanted.flatMap(planNew))
    return true
  } catch (error) {
    if (isErrno(error, "EEXIST", "ENOTEMPTY", "ENOENT")) return false
    throw error
  }
}

/** What all that may be in the way has somewhere in it: the owner's name, the container's address, or one of the ports. */
function needlesOf({ comment, part }: Wanted): Uint8Array[] {
  return [new TextEncoder().encode(comment), part.address.ip, ...part.mappings.map(endBytes)]
}

function isHolderGone({ comment = "", note }: Element): boolean {
  return isGone(comment, decodeNote(note)?.netns ?? "")
}
