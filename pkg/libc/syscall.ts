import { type ErrnoName, errnoName, errnoNumber } from "./errno.ts"
import { errnoAddress, errnoAt, errorText } from "./symbols.ts"

/** <asm-generic/errno-base.h>: nothing there; a signal came. */
const ENOENT = 2
const EINTR = 4

/** A failed call of the C library. It stays inside the process: `CniError` is what leaves it. */
export class SyscallError extends Error {
  override readonly name = "SyscallError"
  /** "ENOENT" */
  readonly errno: string
  /** "open" */
  readonly call: string

  constructor(call: string, number: number, object = "") {
    const name = errnoName(number)
    super(`${object === "" ? call : `${call} ${object}`}: ${errorText(number)} (${name})`)
    this.errno = name
    this.call = call
  }
}

/** Whether a thrown value is an error of a system call or of netlink with one of these names. */
export function isErrno(error: unknown, ...names: ErrnoName[]): error is Error & { errno: string } {
  if (!(error instanceof Error && "errno" in error)) return false
  for (const name of names) if (name === error.errno) return true
  return false
}

/**
 * Runs a call that answers -1 on failure, again for as long as a signal interrupts it.
 * Throws `SyscallError`; `object` names what the call was about.
 */
export function check(call: string, object: string, attempt: () => number): number {
  const answer = checkIfThere(call, object, attempt)
  if (answer === undefined) throw new SyscallError(call, ENOENT, object)
  return answer
}

/**
 * Like `check`, and undefined for `ENOENT`. For what is often not there: at its first use an exception costs a process as
 * much as a dozen system calls.
 */
export function checkIfThere(call: string, object: string, attempt: () => number): number | undefined {
  const errno = errnoAddress()
  for (;;) {
    const answer = attempt()
    if (answer !== -1) return answer
    const number = errnoAt(errno)
    if (number === ENOENT) return undefined
    if (number !== EINTR) throw new SyscallError(call, number, object)
  }
}

/** Refuses a text that C would cut short: a NUL byte ends a `char *`. */
export function cString(text: string): string {
  if (text.includes("\0")) throw new SyscallError("path", errnoNumber("EINVAL"), JSON.stringify(text))
  return text
}
