import type { Builtins, Reply } from "../invoke/mod.ts"
import { CniError, Code, newestVersion } from "../types/mod.ts"
import { errorReply } from "./error-reply.ts"
import type { Plugin } from "./plugin.ts"
import { prepare, serve } from "./serve.ts"
import { logLine, readStdin, writeStdout } from "./stdio.ts"

/** The plugins inside an executable, each behind the import of its chunk. */
export type PluginTable = Readonly<Record<string, () => Promise<Plugin<unknown>>>>

/**
 * Runs a plugin as this process: reads `CNI_*` and stdin, answers on stdout once, sets the exit code. Plugins of `table`
 * that this one calls run in this process when `CNI_PATH` leads to this very executable; their chunks are loaded before
 * the verb starts, and that is the only thing that is ever waited for.
 *
 * @example if (import.meta.main) runPlugin(ptp)
 */
export function runPlugin<C>(plugin: Plugin<C>, table: PluginTable = {}): void {
  process.exitCode = 1 // until the reply is out: whatever ends this process early must not look like success
  const answer = new Answer()
  let cniVersion: string = newestVersion
  const crash = (error: unknown) => {
    const reply = errorReply(crashError(plugin.name, error), cniVersion)
    logLine(`${plugin.name}: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`)
    process.exit(answer.give(reply))
  }
  process.on("uncaughtException", crash)
  process.on("unhandledRejection", crash)
  process.on("exit", () => {
    if (!answer.isGiven) process.exitCode = answer.give(errorReply(lostError(plugin.name), cniVersion))
  })

  const call = prepare(plugin, { env: process.env, stdin: readStdin, log: logLine })
  cniVersion = call.cniVersion
  const run = (builtins: Builtins) => process.exit(answer.give(call.run(builtins))) // nothing left behind holds us up
  const names: string[] = []
  for (const name of call.delegates) if (Object.hasOwn(table, name)) names.push(name)
  if (names.length === 0) run({})
  else loadBuiltins(names, table).then(run, crash)
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

async function loadBuiltins(names: readonly string[], table: PluginTable): Promise<Builtins> {
  const builtins: Record<string, Builtins[string]> = {}
  await Promise.all(
    names.map(async (name) => {
      const plugin = await table[name]?.()
      if (!plugin) return
      builtins[name] = ({ env, stdin }) =>
        serve(plugin, { env, stdin: () => stdin, builtins, log: logLine, isDelegate: true })
    }),
  )
  return builtins
}

function crashError(name: string, error: unknown): CniError {
  if (error instanceof CniError) return error
  const reason = error instanceof Error ? error.message : String(error)
  return new CniError(Code.Internal, `Plugin "${name}" crashed: ${reason}`)
}

function lostError(name: string): CniError {
  return new CniError(Code.Internal, `Plugin "${name}" ended without an answer`, {
    details: "something it waited for never came",
  })
}
