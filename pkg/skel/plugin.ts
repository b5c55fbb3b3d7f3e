import type { Fields } from "../config/mod.ts"
import type { Delegate } from "../invoke/mod.ts"
import type { NamespaceFile } from "../netns/mod.ts"
import {
  type Attachment,
  CniError,
  Code,
  isCniError,
  type JsonObject,
  type NetworkConfig,
  type Result,
} from "../types/mod.ts"

/** The value of `CNI_COMMAND`. */
export type Verb = "ADD" | "DEL" | "CHECK" | "GC" | "STATUS" | "VERSION"

/** The input of every verb. A variable that the verb does not have is "". */
export interface Call {
  readonly verb: Verb
  readonly containerId: string
  /** The path of the container's namespace, never the plugin's own. On DEL it may be "" or no longer exist. */
  readonly netns: string
  /** The file at the path `netns`, opened before anything else. A later change of the path has no effect. */
  readonly namespace: NamespaceFile
  readonly ifName: string
  /** The value of `CNI_ARGS`. */
  readonly args: string
  /** The value of `CNI_PATH`. */
  readonly path: string
  /** The checked common keys of the configuration. */
  readonly network: NetworkConfig
  /** The whole configuration as parsed, with keys as written. */
  readonly raw: JsonObject
  /** The bytes of the configuration. */
  readonly stdin: Uint8Array
  /** Runs another plugin with the same environment and configuration. */
  readonly delegate: Delegate
  /**
   * Answers ADD. This is the last step of an ADD that can fail: it encodes the result in the caller's version, writes
   * it, and only then keeps the changes in `undo`. Throws code 1 if the version cannot represent the result, and code 5
   * if the result cannot be written; the ADD is then undone. ADD must return the returned value.
   */
  answer(result: Result, undo?: Kept): Answered
  /** Writes a line to stderr. */
  log(line: string): void
}

/** The part of an `Undo` that `answer` uses. The flight recorder reads the changes. */
export interface Kept {
  keep(): void
  readonly changes?: readonly string[]
}

declare const answered: unique symbol

/** The proof that `call.answer` wrote a result. */
export interface Answered {
  readonly [answered]: true
}

/** The input of a plugin's configuration parser. */
export type ConfigCall = Pick<Call, "verb" | "args" | "raw">

/** A plugin: its configuration and its verbs. Verbs throw `CniError`. Any other error becomes code 999. */
export interface Plugin<C> {
  readonly name: string
  /** The supported versions of the specification; all if absent. */
  readonly versions?: readonly string[]
  /** The keys that `config` reads; none if absent. Schemas, `cni lint` and manual pages are generated from them. */
  readonly fields?: Fields | undefined
  /** Reads the configuration. Throws code 7, but on DEL and GC only for values that the cleanup needs. */
  config(network: NetworkConfig, call: ConfigCall): C
  add(call: Call, config: C): Answered
  check(call: Call, config: C): void
  del(call: Call, config: C): void
  status(call: Call, config: C): void
  /** Removes everything of this network that does not belong to `attachments`. */
  gc(call: Call, config: C, attachments: readonly Attachment[]): void
}

/** Returns the plugin. Infers the type of its configuration. */
export function definePlugin<C>(plugin: Plugin<C>): Plugin<C> {
  return plugin
}

/** Runs a check of ADD for STATUS, and returns its result. A refusal becomes code 50. */
export function requireForAdd<T>(check: () => T): T {
  try {
    return check()
  } catch (error) {
    throw isCniError(error) ? unavailable(error) : error
  }
}

/**
 * Like `requireForAdd`, for a set of resources of which every container gets one. ADD can succeed as long as one of
 * them is usable. Throws the first refusal if all are refused.
 */
export function requireOneForAdd<T>(choices: readonly T[], check: (choice: T) => void): void {
  let refusal: CniError | undefined
  for (const choice of choices) {
    try {
      check(choice)
      return
    } catch (error) {
      if (!isCniError(error)) throw error
      refusal ??= error
    }
  }
  if (refusal) throw unavailable(refusal)
}

function unavailable({ message, details }: CniError): CniError {
  return new CniError(Code.PluginNotAvailable, message, { details: details ?? "" })
}
