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

/** What a runtime can ask of a plugin; the value of `CNI_COMMAND`. */
export type Verb = "ADD" | "DEL" | "CHECK" | "GC" | "STATUS" | "VERSION"

/** What every verb gets. A field that the verb does not carry is "". */
export interface Call {
  readonly verb: Verb
  readonly containerId: string
  /**
   * Path of the container's network namespace, for messages and results. Never the plugin's own namespace; on DEL it
   * may be "" or no longer exist.
   */
  readonly netns: string
  /** What is at that path, opened once, before anything else: what is worked on, also when the path changes. */
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
   * Answers ADD, as the last thing that can fail: encodes the result in the caller's version, writes it, and only then
   * keeps what `undo` would take back. A result that the version cannot hold throws code 1, one that cannot be written code
   * 5, and the ADD is undone. What it returns is the only thing that ADD may return.
   */
  answer(result: Result, undo?: Kept): Answered
  /** One line on stderr. */
  log(line: string): void
}

/** What `answer` keeps once the result is written; the flight recorder reads what was changed. */
export interface Kept {
  keep(): void
  readonly changes?: readonly string[]
}

declare const answered: unique symbol

/** A result that has been written, by `call.answer`. */
export interface Answered {
  readonly [answered]: true
}

/** What a plugin reads its configuration from. */
export type ConfigCall = Pick<Call, "verb" | "args" | "raw">

/** A plugin: its configuration and its verbs. Verbs throw `CniError`; anything else becomes code 999. */
export interface Plugin<C> {
  readonly name: string
  /** Supported versions of the specification; all of them when left out. */
  readonly versions?: readonly string[]
  /** The table that `config` reads by: the schemas, `cni lint` and the manual pages are made from it. No keys without it. */
  readonly fields?: Fields | undefined
  /**
   * JSON in, a checked value out; throws `CniError` 7. For DEL and GC be lenient: what is not needed to clean up must not
   * stop it.
   */
  config(network: NetworkConfig, call: ConfigCall): C
  add(call: Call, config: C): Answered
  check(call: Call, config: C): void
  del(call: Call, config: C): void
  status(call: Call, config: C): void
  /** `attachments` are those to keep; everything else of this network goes. */
  gc(call: Call, config: C, attachments: readonly Attachment[]): void
}

/** A plugin as a value; the type of its configuration is inferred. */
export function definePlugin<C>(plugin: Plugin<C>): Plugin<C> {
  return plugin
}

/** Checks for STATUS what ADD checks by the same code, and returns what that returns: its refusal becomes code 50. */
export function requireForAdd<T>(check: () => T): T {
  try {
    return check()
  } catch (error) {
    throw isCniError(error) ? unavailable(error) : error
  }
}

/**
 * The same for what every container gets one of: as long as one of them will do, ADD can succeed. The first refusal is
 * thrown.
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
