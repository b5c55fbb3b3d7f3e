/** What a fuzzed case is: a line of JSON, which the corpus keeps and `fuzz.fixture.ts` runs. */

/** Where a plugin's call gets what it reads from: the answers of the kernel, files, programs and servers. */
export type Source = "netlink" | "file" | "output" | "status"

/** What one call reads is garbled once: the `nth` thing from a source, counted from 0. */
export interface Garbling {
  readonly source: Source
  readonly nth: number
  readonly seed: number
}

/** A call of a plugin with garbage in what it is told, or in what it reads. */
export interface CallCase {
  readonly kind: "call"
  /** What is garbage in it, for the figures: "configuration", "prevResult", … */
  readonly input: string
  readonly plugin: string
  readonly env: Readonly<Record<string, string>>
  /** The configuration, a character for each byte. */
  readonly stdin: string
  /** One value of a valid configuration was replaced: a refusal has to have one of these words, the key's name among them. */
  readonly says?: readonly string[]
  /** ADD comes first, and its result is the configuration's `prevResult`. */
  readonly added?: true
  readonly garbled?: Garbling
}

/** Bytes for one of the functions that read what others have written. */
export interface ReadCase {
  readonly kind: "read"
  readonly reader: string
  /** A character for each byte; several where a function gets several, such as datagrams. */
  readonly bytes: readonly string[]
  /** They are valid, and have to be read without an error. */
  readonly valid?: true
  /** So many cases are made of these bytes, which are valid, by chance that begins with this seed. */
  readonly varied?: { readonly seed: number; readonly times: number }
}

export type Case = CallCase | ReadCase

/** What came of a list of cases. */
export interface Outcome {
  /** How many cases there were of each kind of input. */
  readonly tried: Readonly<Record<string, number>>
  /** What did not hold. */
  readonly broken: readonly { readonly case: Case; readonly why: string }[]
}
