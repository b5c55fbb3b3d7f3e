import { isErrno } from "../libc/mod.ts"
import { NetlinkError, NLM_F_CREATE } from "./message.ts"

/**
 * Marks a lost answer: the kernel had no memory for it, or does not answer. The kernel executes a request before
 * send(2) returns, so all of it may be done, or nothing. A query is sent again. So is a change, which may then be
 * refused because it is done already.
 */
export const lost = { isLost: true }

/** Whether an error means that the answer was lost. */
export function isLost(error: unknown): error is NetlinkError {
  return error instanceof NetlinkError && error.isLost
}

/** Asks the kernel again if its answer to a query was lost. */
export function retryLostAnswer<T>(ask: () => T): T {
  try {
    return ask()
  } catch (error) {
    if (isLost(error)) return ask()
    throw error
  }
}

/**
 * Whether a refusal shows that an earlier copy of the request was executed: the object to create exists, or the one to
 * delete does not.
 */
export function isAlreadyDone({ type, flags = 0 }: { type: number; flags?: number }, error: unknown): boolean {
  if (!(error instanceof NetlinkError)) return false
  if (flags & NLM_F_CREATE) return isErrno(error, "EEXIST")
  const deletes = type >= 16 && type < 256 && (type & 3) === 1 // <linux/rtnetlink.h> numbers requests in groups of four
  return deletes && isErrno(error, "ENODEV", "ENOENT", "ESRCH", "EADDRNOTAVAIL")
}
