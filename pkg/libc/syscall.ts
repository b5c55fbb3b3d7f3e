import { type ErrnoName, errnoName, errnoText } from "./errno.ts"

/** <asm-generic/errno-base.h>: nothing there; a signal came. */
const ENOENT = 2
const EINTR = 4

/** A failed system call. It stays inside the process: `CniError` is what leaves it. */
export class SyscallError extends Error {
  override readonly name = "SyscallError"
  /** "ENOENT" */
  readonly errno: string
  /** "open" */
  readonly call: string

  constructor(call: string, number: number, object = "") {
    const name = errnoName(number)
    super(`${object === "" ? call : `${call} ${object}`}: ${errnoText(number)} (${name})`)
    this.errno = name
    this.call = call
  }
}

/** Whether a thrown value is an error of a system call or of netlink with one of these names; without names, with any. */
export function isErrno(error: unknown, ...names: ErrnoName[]): error is Error & { errno: string } {
  if (!(error instanceof Error && "errno" in error)) return false
  if (names.length === 0) return true
  for (const name of names) if (name === error.errno) return true
  return false
}

/**
 * Runs a system call, again for as long as a signal interrupts it, and returns what it returns. Throws `SyscallError`;
 * `object` names what the call was about.
 */
export function check(call: string, object: string, attempt: () => number): number {
  const answer = retry(attempt)
  if (answer < 0) throw new SyscallError(call, -answer, object)
  return answer
}

/** Like `check`, and undefined for `ENOENT`: for what is often not there, where an exception would be dear. */
export function checkIfThere(call: string, object: string, attempt: () => number): number | undefined {
  const answer = retry(attempt)
  if (answer === -ENOENT) return undefined
  if (answer < 0) throw new SyscallError(call, -answer, object)
  return answer
}

function retry(attempt: () => number): number {
  for (;;) {
    const answer = attempt()
    if (answer !== -EINTR) return answer
  }
}
