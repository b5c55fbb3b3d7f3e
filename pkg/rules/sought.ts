import { encodeUtf8 } from "../engine/mod.ts"
import { CniError, Code, type Owner, ownerComment, staleOf } from "../types/mod.ts"

/** What is to be removed, by its comment. */
export interface Sought {
  isStale(comment: string): boolean
  /** An object with such a comment has one of these in its bytes; undefined where each object is to be looked at. */
  readonly needles?: readonly Uint8Array[]
  /** The one attachment that it is of, if it is one. */
  readonly owner?: Owner
}

/** What one attachment has. */
export function ofOwner(owner: Owner): Sought {
  const comment = ownerComment(owner)
  return { isStale: (found) => found === comment, needles: [encodeUtf8(comment)], owner }
}

/** What the attachments to a network have, but for the valid ones. */
export function ofStale(network: string, valid: readonly Owner[]): Sought {
  return { isStale: staleOf(network, valid) }
}

/** The error of CHECK for what is not as ADD has left it. */
export function missingRules(what: string, expected: string, found = "none"): CniError {
  return new CniError(Code.Internal, `Cannot find ${what}: expected ${expected}; found ${found}`)
}
