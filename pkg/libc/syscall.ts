import { Errno, errnoName } from "./errno.ts"
import { errnoAddress, errnoAt, errorText } from "./symbols.ts"

/** A failed call of the C library. It stays inside the process: `CniError` is what leaves it. */
export class SyscallError extends Error {
  override readonly name = "SyscallError"
  /** "ENOENT" */
  readonly errno: string
  /** "open" */
  readonly call: string

  constructor(call: string, number: number, object = "") {
    super(`${object === "" ? call : `${call} ${object}`}: ${errorText(number)} (${errnoName(number)})`)
    this.errno = errnoName(number)
    this.call = call
  }
}

/** Whether a thrown value is an error of a system call or of netlink with one of these names. */
export function isErrno(error: unknown, ...names: (keyof typeof Errno)[]): error is Error & { errno: string } {
  return error instanceof Error && "errno" in error && names.some((name) => name === error.errno)
}

/**
 * Runs a call that answers -1 on failure, again for as long as a signal interrupts it.
 * Throws `SyscallError`; `object` names what the call was about.
 */
export function check(call: string, object: string, attempt: () => number): number {
  const errno = errnoAddress()
  for (;;) {
    const answer = attempt()
    if (answer !== -1) return answer
    const number = errnoAt(errno)
    if (number !== Errno.EINTR) throw new SyscallError(call, number, object)
  }
}

/** Refuses a text that C would cut short: a NUL byte ends a `char *`. */
export function cString(text: string): string {
  if (text.includes("\0")) throw new SyscallError("path", Errno.EINVAL, JSON.stringify(text))
  return text
}
