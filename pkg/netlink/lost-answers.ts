import { isErrno } from "../libc/mod.ts"
import { NetlinkError, NLM_F_CREATE } from "./message.ts"

/**
 * Answers that are lost: the kernel had no memory for one, or does not answer. It does a request before send(2) returns, so all of
 * it may be done, or nothing. A question is sent again; so is a change, which may then be refused as done.
 */
export const lost = { isLost: true }

/** Whether an error says so. */
export function isLost(error: unknown): error is NetlinkError {
  return error instanceof NetlinkError && error.isLost
}

/** Asks the kernel again when its answer to a question was lost. */
export function retryLostAnswer<T>(ask: () => T): T {
  try {
    return ask()
  } catch (error) {
    if (isLost(error)) return ask()
    throw error
  }
}

/** Whether a request was done by the same one before it: what it makes is there, or what it deletes is not. */
export function isAlreadyDone({ type, flags = 0 }: { type: number; flags?: number }, error: unknown): boolean {
  if (!(error instanceof NetlinkError)) return false
  if (flags & NLM_F_CREATE) return isErrno(error, "EEXIST")
  const deletes = type >= 16 && type < 256 && (type & 3) === 1 // <linux/rtnetlink.h> has requests in fours
  return deletes && isErrno(error, "ENODEV", "ENOENT", "ESRCH", "EADDRNOTAVAIL")
}
