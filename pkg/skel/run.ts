import type { Builtin, Reply } from "../invoke/mod.ts"
import { CniError, Code, newestVersion } from "../types/mod.ts"
import { errorReply } from "./error-reply.ts"
import type { Plugin } from "./plugin.ts"
import { prepare, serve } from "./serve.ts"
import { logLine, readStdin, writeStdout } from "./stdio.ts"

/**
 * Runs a plugin as this process: reads `CNI_*` and stdin, answers on stdout once, exits. Those of `delegates` that this
 * plugin calls run in this process when `CNI_PATH` leads to this very executable. Nothing is ever waited for.
 *
 * @example if (import.meta.main) runPlugin(ptp)
 */
export function runPlugin<C>(plugin: Plugin<C>, delegates: readonly Plugin<unknown>[] = []): void {
  process.exitCode = 1 // until the reply is out: whatever ends this process early must not look like success
  const answer = new Answer()
  let cniVersion: string = newestVersion
  process.on("exit", () => {
    if (!answer.isGiven) process.exitCode = answer.give(errorReply(lostError(plugin.name), cniVersion))
  })
  const call = prepare(plugin, { env: process.env, stdin: readStdin, log: logLine })
  cniVersion = call.cniVersion
  process.exit(answer.give(call.run(builtinsOf(delegates)))) // nothing left behind holds us up
}

/** The one document on stdout. */
class Answer {
  #isGiven = false

  get isGiven(): boolean {
    return this.#isGiven
  }

  /** Writes a reply and answers the exit code: that of the reply, and 1 when it could not be written or is the second. */
  give(reply: Reply): number {
    if (this.#isGiven) return 1
    this.#isGiven = true
    try {
      writeStdout(reply.stdout)
      return reply.exitCode
    } catch (error) {
      const what = reply.exitCode === 0 ? "result" : "error JSON"
      logLine(`Error writing ${what} to stdout: ${error instanceof Error ? error.message : String(error)}`)
      return 1
    }
  }
}

function builtinsOf(delegates: readonly Plugin<unknown>[]): Record<string, Builtin> {
  const builtins: Record<string, Builtin> = {}
  for (const delegate of delegates) {
    builtins[delegate.name] = ({ env, stdin }) =>
      serve(delegate, { env, stdin: () => stdin, builtins, log: logLine, isDelegate: true })
  }
  return builtins
}

function lostError(name: string): CniError {
  return new CniError(Code.Internal, `Plugin "${name}" ended without an answer`, {
    details: "it has stopped in the middle of what it did: a bug",
  })
}
