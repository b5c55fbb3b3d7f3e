/** A fuzzed case is a line of JSON. The corpus stores it, and `fuzz.fixture.ts` runs it. */

/** The source of a plugin's input: the kernel, files, programs or servers. */
export type Source = "netlink" | "file" | "output" | "status"

/** One read of a call is garbled: the `nth` one of a source, counted from 0. */
export interface Garbling {
  readonly source: Source
  readonly nth: number
  readonly seed: number
}

/** A plugin call with garbage in its arguments or in its reads. */
export interface CallCase {
  readonly kind: "call"
  /** The garbled part, for the figures: "configuration", "prevResult", … */
  readonly input: string
  readonly plugin: string
  readonly env: Readonly<Record<string, string>>
  /** The configuration, with one character per byte. */
  readonly stdin: string
  /**
   * One value of a valid configuration was replaced. A refusal must contain one of these words, which include the key's
   * name.
   */
  readonly says?: readonly string[]
  /** Whether ADD runs first, and its result is the `prevResult` of the configuration. */
  readonly added?: true
  readonly garbled?: Garbling
}

/** Bytes for a function that reads data of other programs. */
export interface ReadCase {
  readonly kind: "read"
  readonly reader: string
  /** Texts with one character per byte. Several if a function reads several parts, such as datagrams. */
  readonly bytes: readonly string[]
  /** Whether the bytes are valid and must be read without an error. */
  readonly valid?: true
  /** The number of random variants of these valid bytes, and their seed. */
  readonly varied?: { readonly seed: number; readonly times: number }
}

export type Case = CallCase | ReadCase

/** The outcome of a list of cases. */
export interface Outcome {
  /** The number of cases of each kind of input. */
  readonly tried: Readonly<Record<string, number>>
  /** The failed cases. */
  readonly broken: readonly { readonly case: Case; readonly why: string }[]
}
