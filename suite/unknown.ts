import { exit, programName, readEnvironment } from "../pkg/libc/mod.ts"
import { answer, logLine } from "../pkg/skel/mod.ts"
import { newestVersion } from "../pkg/types/mod.ts"

/** Answers under a name that no plugin of the executable has: an error for a runtime on stdout, a line for people on stderr. */
export function runUnknown(): never {
  const msg = `Cannot act as "${programName()}": no such plugin`
  const names = Object.keys(Reflect.get(globalThis, "plugins")).filter((name) => name !== "unknown")
  const details = `names that this executable answers to: ${names.join(", ")}`
  if (readEnvironment().CNI_COMMAND === undefined) {
    logLine(`${msg}; ${details}`)
    return exit(1)
  }
  const stdout = `${JSON.stringify({ cniVersion: newestVersion, code: 4, msg, details })}\n`
  return exit(answer({ stdout, exitCode: 1 }))
}
