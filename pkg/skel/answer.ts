import { type Exhaustion, exhaustion, sourceFrames, withFrames } from "../engine/mod.ts"
import type { Reply } from "../invoke/mod.ts"
import { isErrno } from "../libc/mod.ts"
import { beginDeletion } from "../records/mod.ts"
import {
  AlreadyAttached,
  CniError,
  Code,
  type ErrorObject,
  encodeResult,
  messageOf,
  orCannot,
  ownerOf,
  printJson,
  toErrorObject,
} from "../types/mod.ts"
import type { Answered, Call, Plugin } from "./plugin.ts"

/**
 * Runs the verb of a call. `write` gets the result of ADD. Throws the plugin's errors until the plugin has answered,
 * and logs later ones. Throws code 999 if ADD returns a promise, or a value that `call.answer` did not create.
 */
export function perform<C>(plugin: Plugin<C>, parts: Omit<Call, "answer">, write: (text: string) => void): void {
  const proofs = new Set<unknown>() // a verb proves by its return value that it wrote a result
  let isKept = false
  const call: Call = {
    ...parts,
    answer(result, undo) {
      const text = printJson(encodeResult(result, parts.network.cniVersion))
      const proof = {} as Answered
      proofs.add(proof)
      orCannot("Cannot write the result to stdout", () => write(text), Code.Io)
      undo?.keep()
      isKept = true
      return proof
    },
  }
  let returned: unknown
  try {
    const config = plugin.config(call.network, { verb: call.verb, args: call.args, raw: call.raw })
    if (call.verb === "DEL" && "restore" in plugin) beginDeletion(ownerOf(call))
    returned = runVerb(plugin, call, config)
  } catch (error) {
    if (!isKept) throw logged(error, parts.log)
    logAfterAnswer(error, parts.log)
    return
  }
  if (call.verb === "ADD" ? proofs.has(returned) : returned === undefined) return
  const what = isPromise(returned) ? "a promise" : "a value that the protocol does not allow"
  throw new CniError(Code.Internal, `Cannot answer ${call.verb}: plugin "${plugin.name}" returned ${what}`)
}

/** Logs the origin of an error that is a bug in the plugin's code. Returns the error. */
function logged(error: unknown, log: (line: string) => void): unknown {
  if (!(error instanceof CniError || isErrno(error)) && error instanceof Error) log(withFrames(error))
  return error
}

/** Logs an error after the answer. Never throws, because that would cause a second answer. */
function logAfterAnswer(error: unknown, log: (line: string) => void): void {
  try {
    log(`Cannot clean up after the answer: ${messageOf(error)}`)
  } catch {}
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
      return undefined // the skeleton answers it
  }
}

/** Returns the reply for any thrown value: the error object of CNI 1.1.0, exit code 1. Never throws. */
export function errorReply(error: unknown, cniVersion: string): Reply {
  const reply = { stdout: printJson(errorObject(error, cniVersion)), exitCode: 1 }
  return error instanceof AlreadyAttached ? { ...reply, isAttached: true } : reply
}

function errorObject(error: unknown, cniVersion: string): ErrorObject {
  try {
    const exhausted = exhaustion(error)
    const object = toErrorObject(exhausted ? shortage(exhausted) : toCniError(error), cniVersion)
    if (!(error instanceof CniError || isErrno(error))) {
      const frames = sourceFrames(error).join(", ")
      const details = [object.details, frames && `at ${frames}`].filter((part) => part).join("; ")
      if (details !== "") object.details = details
    }
    if (!Number.isSafeInteger(object.code) || object.code < 0) object.code = Code.Internal
    return object.msg === "" ? { ...object, msg: "failed without a message" } : object
  } catch {
    return toErrorObject(new CniError(Code.Internal, "failed with an error without a message"), cniVersion)
  }
}

/** Converts a kernel error that the plugin did not catch to a `CniError`. Returns other errors unchanged. */
function toCniError(error: unknown): unknown {
  if (!isErrno(error)) return error
  const details = isErrno(error, "ENODEV") ? "the interface was deleted or moved during the call" : ""
  return new CniError(Code.Internal, `Cannot ${error.message}`, { cause: error, details })
}

const advice = {
  memory: "raise the limit for plugins: RLIMIT_AS, or its cgroup's memory.max",
  stack: "the configuration is nested too deeply, or the caller's RLIMIT_STACK is below 1 MiB",
} as const

function shortage(what: Exhaustion): CniError {
  return new CniError(Code.Internal, `Cannot finish: not enough ${what}`, { details: advice[what] })
}
