import { type Exhaustion, exhaustion, sourceFrames } from "../engine/mod.ts"
import type { Reply } from "../invoke/mod.ts"
import { CniError, Code, type ErrorObject, printJson, toErrorObject } from "../types/mod.ts"

/** Any thrown value as the reply that reports it: the error object of CNI 1.1.0, exit code 1. Never throws. */
export function errorReply(error: unknown, cniVersion: string): Reply {
  return { stdout: printJson(errorObject(error, cniVersion)), exitCode: 1 }
}

function errorObject(error: unknown, cniVersion: string): ErrorObject {
  try {
    const exhausted = exhaustion(error)
    const object = toErrorObject(exhausted ? shortage(exhausted) : error, cniVersion)
    if (!(error instanceof CniError))
      object.details = [...(object.details ? [object.details] : []), ...where(error)].join("; ")
    if (!Number.isSafeInteger(object.code) || object.code < 0) object.code = Code.Internal
    return object.msg === "" ? { ...object, msg: "failed without saying why" } : object
  } catch {
    return toErrorObject(new CniError(Code.Internal, "failed with an error that has no text"), cniVersion)
  }
}

/** In our words, what an engine says in its own. */
function shortage(what: Exhaustion): CniError {
  const [msg, details] = {
    memory: [
      "Cannot finish: not enough memory",
      "raise the limit that the caller runs plugins under: RLIMIT_AS, or its cgroup's memory.max",
    ],
    stack: [
      "Cannot finish: not enough stack",
      "the configuration is nested too deeply, or the caller's RLIMIT_STACK is below 1 MiB",
    ],
  }[what] as [string, string]
  return new CniError(Code.Internal, msg, { details })
}

/** The line of our source that an error comes from which nobody has expected, for whoever reads the runtime's log. */
function where(error: unknown): string[] {
  const frames = sourceFrames(error)
  return frames.length === 0 ? [] : [`at ${frames.join(", ")}`]
}
