import { CniError, Code, encodeResult, printJson } from "../types/mod.ts"
import type { Answered, Call, Plugin } from "./plugin.ts"

/**
 * Runs the verb of a call; a result of ADD goes out by `write`, the other verbs have none. Throws what the plugin throws,
 * and code 999 when it answers ADD with something that `call.answer` did not make, or answers with a promise: nobody waits
 * for it.
 */
export function perform<C>(plugin: Plugin<C>, parts: Omit<Call, "answer">, write: (text: string) => void): void {
  const answers = new Set<unknown>()
  const call: Call = {
    ...parts,
    answer(result, undo) {
      const text = printJson(encodeResult(result, parts.network.cniVersion))
      try {
        write(text)
      } catch (cause) {
        throw new CniError(Code.Io, "Cannot write the result to stdout", { cause })
      }
      undo?.keep()
      const answer = {} as Answered
      answers.add(answer)
      return answer
    },
  }
  const config = plugin.config(call.network, { verb: call.verb, args: call.args, raw: call.raw })
  const answer: unknown = runVerb(plugin, call, config)
  if (call.verb === "ADD" ? answers.has(answer) : answer === undefined) return
  const what = isPromise(answer) ? "a promise" : "something else than the protocol has for it"
  throw new CniError(Code.Internal, `Cannot answer ${call.verb}: plugin "${plugin.name}" returned ${what}`)
}

function isPromise(value: unknown): boolean {
  return typeof value === "object" && value !== null && "then" in value
}

function runVerb<C>(plugin: Plugin<C>, call: Call, config: C): unknown {
  switch (call.verb) {
    case "ADD":
      return plugin.add(call, config)
    case "CHECK":
      return plugin.check(call, config)
    case "DEL":
      return plugin.del(call, config)
    case "STATUS":
      return plugin.status(call, config)
    case "GC":
      return plugin.gc(call, config, call.network.attachments ?? [])
    case "VERSION":
      return undefined // the skeleton's own affair
  }
}
