import { decodeUtf8 } from "../../pkg/engine/mod.ts"
import { exit, isErrno, programArguments, spawn, writeExisting } from "../../pkg/libc/mod.ts"
import { logLine } from "../../pkg/skel/mod.ts"
import { CniError, Code, orCannot } from "../../pkg/types/mod.ts"
import { createTap, type TapDevice } from "./device.ts"

/** The context of what this thread executes next. Empty, which it is at a program's start: the one that the policy says. */
const NEXT = "/proc/thread-self/attr/exec"

/** The argument of this program where it only makes a device. */
const TASK = "create-device"

/** Runs `work`, whose programs are executed in a SELinux context. Throws code 7 for one that the kernel refuses. */
export function withContext<T>(context: string, work: () => T): T {
  try {
    writeExisting(NEXT, context)
  } catch (cause) {
    const what = `Cannot use "selinuxContext" "${context}": SELinux is off, or its policy does not know it`
    throw new CniError(Code.InvalidNetworkConfig, what, {
      cause,
      details: isErrno(cause) ? cause.errno : String(cause),
    })
  }
  try {
    return work()
  } finally {
    writeExisting(NEXT, "\n") // is empty, too; nothing at all would not reach the kernel
  }
}

/**
 * `createTap` in a SELinux context. A device has the context of the process that makes it, and policies let processes change
 * theirs by executing a program alone: this program is executed for it. Throws `CniError`.
 */
export function createTapIn(context: string, tap: TapDevice): void {
  const program = { path: "/proc/self/exe", name: "tap", args: [TASK, JSON.stringify(tap)], env: {} }
  const refusal = `Cannot create a tap as "${context}"`
  const run = () => orCannot(refusal, () => spawn({ ...program, timeoutMs: 10_000, outputLimit: 4096 }))
  const details = failureOf(withContext(context, run))
  if (details !== undefined) throw new CniError(Code.Internal, refusal, { details })
}

/** The failure of a program: its message, or else its end. Undefined for one that succeeded. */
export function failureOf({ exitCode, signal, stderr }: ReturnType<typeof spawn>): string | undefined {
  return exitCode === 0 ? undefined : decodeUtf8(stderr).trim() || (signal ?? `exit status ${exitCode}`)
}

/** Makes the tap and ends the process, in a process that `createTapIn` has started. Does nothing in any other. */
export function createTapIfAsked(): void {
  const [task, tap = ""] = programArguments()
  if (task !== TASK) return
  try {
    createTap(JSON.parse(tap))
  } catch (error) {
    logLine(String(error))
    exit(1)
  }
  exit(0)
}
