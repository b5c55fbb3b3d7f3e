import { isErrno } from "../libc/mod.ts"
import { NetlinkError, NLM_F_CREATE } from "./message.ts"

/**
 * Marks the error for a lost answer: the kernel had no memory for the answer, or sent none. The kernel executes a
 * request before send(2) returns, so the change is made completely or not at all. Both queries and changes are sent
 * again. The second copy of a change may be refused because the first was executed.
 */
export const lost = { isLost: true }

/** Reports whether an error means that the answer was lost. */
export function isLost(error: unknown): error is NetlinkError {
  return error instanceof NetlinkError && error.isLost
}

/** Calls `ask` for an answer to a query, and once more if the answer was lost. */
export function retryLostAnswer<T>(ask: () => T): T {
  try {
    return ask()
  } catch (error) {
    if (isLost(error)) return ask()
    throw error
  }
}

/** Reports whether a refusal shows that an earlier copy was executed: the object exists, or was deleted. */
export function isAlreadyDone({ type, flags = 0 }: { type: number; flags?: number }, error: unknown): boolean {
  if (!(error instanceof NetlinkError)) return false
  if (flags & NLM_F_CREATE) return isErrno(error, "EEXIST")
  // <linux/rtnetlink.h> numbers requests in groups of four: NEW, DEL, GET, SET
  const deletes = type >= 16 && type < 256 && (type & 3) === 1
  return deletes && isErrno(error, "ENODEV", "ENOENT", "ESRCH", "EADDRNOTAVAIL")
}
