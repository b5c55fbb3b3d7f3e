import { exit, programName, readEnvironment } from "../../pkg/libc/mod.ts"
import { answer, logLine } from "../../pkg/skel/mod.ts"
import { newestVersion } from "../../pkg/types/mod.ts"
import { pluginNames } from "../plugins.ts"

/** What the executable is under a name that is no plugin's: it tells a runtime on stdout, a human on stderr. */
export function run(): never {
  const msg = `Cannot act as "${programName()}": no such plugin`
  const details = `names that this executable answers to: ${pluginNames.join(", ")}`
  if (readEnvironment().CNI_COMMAND === undefined) {
    logLine(`${msg}; ${details}`)
    return exit(1)
  }
  return exit(
    answer({ stdout: `${JSON.stringify({ cniVersion: newestVersion, code: 4, msg, details })}\n`, exitCode: 1 }),
  )
}
