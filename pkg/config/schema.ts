/**
 * The keys of an object, and what each of them has to be. A schema is a table of plain values that types are inferred
 * from.
 */
export interface Fields {
  readonly [key: string]: Schema
}

/** What a value has to be. */
export type Schema =
  | BooleanSchema
  | IntegerSchema
  | TextSchema
  | QuantitySchema
  | ChoiceSchema
  | ListSchema
  | RecordSchema
  | ObjectSchema

interface Common {
  /** What errors say is expected here, where the kind's own words will not do. */
  readonly expected?: string
  /** The key has to be there. Any other may be absent, or `null`, which is the same. */
  readonly required?: true
  /** What an absent key counts as. */
  readonly default?: unknown
  /** As an element of a list it may be `null`. */
  readonly nullable?: true
}

interface BooleanSchema extends Common {
  readonly kind: "boolean"
  readonly default?: boolean
}

/** A whole number, within limits if there are any. */
interface IntegerSchema extends Common {
  readonly kind: "integer"
  readonly min?: number
  readonly max?: number
  readonly default?: number
}

interface TextSchema extends Common {
  readonly kind: "text"
  /** Returns `undefined` for a text that will not do; `form` is what errors say is expected then. */
  readonly check?: (text: string) => unknown
  readonly form?: string
  /** What `check` looks at, as far as a regular expression can say it: for JSON Schema, not for the parser. */
  readonly pattern?: string
  readonly default?: string
}

/** A number with or without a unit: 5000000, "5Mbit". */
interface QuantitySchema extends Common {
  readonly kind: "quantity"
  readonly expected: string
  /** What a number, as it is written, or a text stands for; `undefined` for one that will not do. */
  readonly read: (written: string) => number | undefined
  readonly default?: number
}

/** One of a few texts. */
interface ChoiceSchema extends Common {
  readonly kind: "choice"
  readonly of: readonly string[]
  readonly expected: string
  /** The texts, all of lower case, may be written in any, and are read as they are here. */
  readonly ignoreCase?: true
}

interface ListSchema extends Common {
  readonly kind: "list"
  readonly of: Schema
  readonly default?: readonly []
}

/** An object with any keys, whose values are alike. */
interface RecordSchema extends Common {
  readonly kind: "record"
  readonly of: Schema
}

/** An object with known keys. `expected` is also what errors say when a required one is missing. */
export interface ObjectSchema extends Common {
  readonly kind: "object"
  readonly fields: Fields
}

/** The object that fields describe. */
export type Infer<F extends Fields> = {
  -readonly [K in keyof F as F[K] extends Given ? K : never]: Value<F[K]>
} & {
  -readonly [K in keyof F as F[K] extends Given ? never : K]?: Value<F[K]> | undefined
}

/** What has a value even where the key is absent, or cannot be absent. */
type Given = { readonly required: true } | { readonly default: unknown }

type Value<S> = S extends { kind: "boolean" }
  ? boolean
  : S extends { kind: "integer" | "quantity" }
    ? number
    : S extends { kind: "text" }
      ? string
      : S extends { kind: "choice"; of: readonly (infer T)[] }
        ? T
        : S extends { kind: "list"; of: infer E }
          ? readonly Element<E>[]
          : S extends { kind: "record"; of: infer E }
            ? Record<string, Value<E>>
            : S extends { kind: "object"; fields: infer F extends Fields }
              ? Infer<F>
              : never

type Element<S> = S extends { nullable: true } ? Value<S> | null : Value<S>
