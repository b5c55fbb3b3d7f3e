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

/** The input of every verb. A field that the verb does not have is "". */
export interface Call {
  readonly verb: Verb
  readonly containerId: string
  /**
   * The path of the container's network namespace, for messages and results. Never the plugin's own namespace; on DEL
   * it may be "" or no longer exist.
   */
  readonly netns: string
  /** The file at that path, opened once before anything else: it is used even if the path changes. */
  readonly namespace: NamespaceFile
  readonly ifName: string
  /** `CNI_ARGS` */
  readonly args: string
  /** `CNI_PATH` */
  readonly path: string
  /** The configuration's common keys, checked. */
  readonly network: NetworkConfig
  /** The whole configuration as parsed, keys as written. */
  readonly raw: JsonObject
  /** The configuration as it came, byte for byte. */
  readonly stdin: Uint8Array
  /** Runs another plugin with the same environment and configuration. */
  readonly delegate: Delegate
  /**
   * Answers ADD as its last step that can fail: encodes the result in the caller's version, writes it, and only then
   * keeps the changes in `undo`. A result that the version cannot hold throws code 1, one that cannot be written code
   * 5, and the ADD is undone. ADD must return the returned value.
   */
  answer(result: Result, undo?: Kept): Answered
  /** One line on stderr. */
  log(line: string): void
}

/** The part of an `Undo` that `answer` uses; the flight recorder reads the changes. */
export interface Kept {
  keep(): void
  readonly changes?: readonly string[]
}

declare const answered: unique symbol

/** A result that was written by `call.answer`. */
export interface Answered {
  readonly [answered]: true
}

/** The input of a plugin's configuration parser. */
export type ConfigCall = Pick<Call, "verb" | "args" | "raw">

/** A plugin: its configuration and its verbs. Verbs throw `CniError`; anything else becomes code 999. */
export interface Plugin<C> {
  readonly name: string
  /** Supported versions of the specification; all if absent. */
  readonly versions?: readonly string[]
  /**
   * The table that `config` reads by; schemas, `cni lint` and the manual pages are generated from it. No keys if
   * absent.
   */
  readonly fields?: Fields | undefined
  /**
   * Parses JSON to a checked value; throws `CniError` 7. For DEL and GC it must be lenient: a value that is not needed
   * to clean up must not stop it.
   */
  config(network: NetworkConfig, call: ConfigCall): C
  add(call: Call, config: C): Answered
  check(call: Call, config: C): void
  del(call: Call, config: C): void
  status(call: Call, config: C): void
  /** `attachments` are kept; everything else of this network is removed. */
  gc(call: Call, config: C, attachments: readonly Attachment[]): void
}

/** A plugin as a value; the type of its configuration is inferred. */
export function definePlugin<C>(plugin: Plugin<C>): Plugin<C> {
  return plugin
}

/** Runs for STATUS the code of ADD's checks, and returns its result: a refusal becomes code 50. */
export function requireForAdd<T>(check: () => T): T {
  try {
    return check()
  } catch (error) {
    throw isCniError(error) ? unavailable(error) : error
  }
}

/**
 * Like `requireForAdd`, for resources of which every container gets one: ADD can succeed as long as one of them is
 * usable. Throws the first refusal.
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
