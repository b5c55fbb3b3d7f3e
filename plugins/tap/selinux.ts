import { decodeUtf8 } from "../../pkg/engine/mod.ts"
import { exit, isErrno, programArguments, spawn, writeExisting } from "../../pkg/libc/mod.ts"
import { logLine } from "../../pkg/skel/mod.ts"
import { CniError, Code, orCannot } from "../../pkg/types/mod.ts"
import { createTap, type TapDevice } from "./device.ts"

/** The file with the SELinux context of the next program that the thread runs. If it is empty, the policy decides. */
const NEXT = "/proc/thread-self/attr/exec"

/** The argument with which `createTapIn` starts this program. */
const TASK = "create-device"

/** Runs `work`, whose child processes get a SELinux context. Throws code 7 if the kernel refuses the context. */
export function withContext<T>(context: string, work: () => T): T {
  try {
    writeExisting(NEXT, context)
  } catch (cause) {
    const what = `Cannot use "selinuxContext" "${context}": SELinux is disabled, or its policy does not define the context`
    throw new CniError(Code.InvalidNetworkConfig, what, {
      cause,
      details: isErrno(cause) ? cause.errno : String(cause),
    })
  }
  try {
    return work()
  } finally {
    writeExisting(NEXT, "\n") // a line end means empty too; a write without bytes would not reach the kernel
  }
}

/**
 * Runs `createTap` in a SELinux context. A device gets the context of the process that creates it, and policies let a
 * process change its context only by executing a program, so this executes its own program. Throws `CniError`.
 */
export function createTapIn(context: string, tap: TapDevice): void {
  const program = { path: "/proc/self/exe", name: "tap", args: [TASK, JSON.stringify(tap)], env: {} }
  const refusal = `Cannot create a tap as "${context}"`
  const run = () => orCannot(refusal, () => spawn({ ...program, timeoutMs: 10_000, outputLimit: 4096 }))
  const details = failureOf(withContext(context, run))
  if (details !== undefined) throw new CniError(Code.Internal, refusal, { details })
}

/** Returns why a program failed: its message, or else its signal or exit status. Returns undefined if it succeeded. */
export function failureOf({ exitCode, signal, stderr }: ReturnType<typeof spawn>): string | undefined {
  return exitCode === 0 ? undefined : decodeUtf8(stderr).trim() || (signal ?? `exit status ${exitCode}`)
}

/** Creates the tap and ends the process, if `createTapIn` has started this process. */
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
