/**
 * A case is a plugin call or a read with garbage. The corpus stores a case as a line of JSON, and `fuzz.fixture.ts`
 * runs cases.
 */

/** The source of a plugin's input: the kernel, files, programs or servers. */
export type Source = "netlink" | "file" | "output" | "status"

/** The input to garble: the `nth` read from a source, counted from 0. */
export interface Garbling {
  readonly source: Source
  readonly nth: number
  readonly seed: number
}

/** A plugin call with garbage in its arguments or in its reads. */
export interface CallCase {
  readonly kind: "call"
  /** The garbled part, as a heading for results: "configuration", "prevResult", … */
  readonly input: string
  readonly plugin: string
  readonly env: Readonly<Record<string, string>>
  /** The bytes of the configuration, as a string with one character for each byte. */
  readonly stdin: string
  /**
   * Words of which an error message must contain at least one, such as the key's name. Set if one value of a valid
   * configuration was replaced.
   */
  readonly says?: readonly string[]
  /** Whether ADD runs first, and its result becomes the `prevResult` of this call. */
  readonly added?: true
  readonly garbled?: Garbling
}

/** Garbage for a function that reads data of other programs. */
export interface ReadCase {
  readonly kind: "read"
  readonly reader: string
  /** The parts of the input, such as datagrams, as strings with one character for each byte. */
  readonly bytes: readonly string[]
  /** Whether the input is valid, so that reading it must succeed. */
  readonly valid?: true
  /** The number of random variants of this valid input to try, and their seed. */
  readonly varied?: { readonly seed: number; readonly times: number }
}

export type Case = CallCase | ReadCase

/** The results of a list of cases. */
export interface Outcome {
  /** The number of cases for each garbled part. */
  readonly tried: Readonly<Record<string, number>>
  /** The failed cases with the reason. */
  readonly broken: readonly { readonly case: Case; readonly why: string }[]
}
