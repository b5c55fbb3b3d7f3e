import { exhaustion } from "../engine/mod.ts"
import type { Builtin, Reply } from "../invoke/mod.ts"
import { exit, readEnvironment } from "../libc/mod.ts"
import type { NamespaceFile } from "../netns/mod.ts"
import type { Plugin } from "./plugin.ts"
import { prepare, serve } from "./serve.ts"
import { logLine, readStdin, writeStdout } from "./stdio.ts"

/**
 * Runs a plugin as this process: reads `CNI_*` and stdin, answers on stdout once, exits. Those of `delegates` that this
 * plugin calls run in this process when `CNI_PATH` leads to this very executable. Nothing is ever waited for.
 *
 * @example if (import.meta.main) runPlugin(ptp)
 */
export function runPlugin<C>(plugin: Plugin<C>, delegates: readonly Plugin<unknown>[] = []): never {
  const call = prepare(plugin, { env: readEnvironment(), stdin: readStdin, log: logLine, write: writeStdout })
  return exit(answer(call.run((namespace) => builtinsOf(delegates, namespace)))) // nothing left behind holds us up
}

/**
 * Writes what is left to be said on stdout; returns the exit code: that of the reply, and 1 when it could not be written.
 * Throws when the engine has no memory or stack for that: the host then answers without the engine.
 */
export function answer(reply: Reply): number {
  try {
    if (reply.stdout !== "") writeStdout(reply.stdout)
    return reply.exitCode
  } catch (error) {
    if (exhaustion(error)) throw error
    logLine(
      `Cannot write to stdout: ${error instanceof Error ? error.message : String(error)}; it was: ${reply.stdout}`,
    )
    return 1
  }
}

function builtinsOf(delegates: readonly Plugin<unknown>[], namespace: NamespaceFile): Record<string, Builtin> {
  const builtins: Record<string, Builtin> = {}
  for (const delegate of delegates) {
    builtins[delegate.name] = ({ env, stdin }) =>
      serve(delegate, { env, stdin: () => stdin, builtins, log: logLine, namespace })
  }
  return builtins
}
