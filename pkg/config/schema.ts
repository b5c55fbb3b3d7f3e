/** The keys of an object with the schema of each. A schema is a table of plain values from which types are inferred. */
export interface Fields {
  readonly [key: string]: Schema
}

/** The expectation for a value. */
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
  /** The expectation in errors, if the default for the kind does not fit. */
  readonly expected?: string
  /** The key is required. Any other may be absent or `null`, which is the same. */
  readonly required?: true
  /** The value of an absent key. */
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
  /** Returns `undefined` for an invalid text; `form` is then the expectation in errors. */
  readonly check?: (text: string) => unknown
  readonly form?: string
  /** The condition of `check` as a regular expression, as far as possible: for JSON Schema, not for the parser. */
  readonly pattern?: string
  readonly default?: string
}

/** A number with or without a unit: 5000000, "5Mbit". */
interface QuantitySchema extends Common {
  readonly kind: "quantity"
  readonly expected: string
  /** Returns the value of a number, as written, or of a text; `undefined` if it is invalid. */
  readonly read: (written: string) => number | undefined
  readonly default?: number
}

/** One of a few texts. */
interface ChoiceSchema extends Common {
  readonly kind: "choice"
  readonly of: readonly string[]
  readonly expected: string
  /** The texts, all in lower case, match ignoring case, and are returned as listed here. */
  readonly ignoreCase?: true
}

interface ListSchema extends Common {
  readonly kind: "list"
  readonly of: Schema
  readonly default?: readonly []
}

/** An object with any keys and values of one schema. */
interface RecordSchema extends Common {
  readonly kind: "record"
  readonly of: Schema
}

/** An object with known keys. `expected` also describes a missing required key in errors. */
export interface ObjectSchema extends Common {
  readonly kind: "object"
  readonly fields: Fields
}

/** The type of the object that fields describe. */
export type Infer<F extends Fields> = {
  -readonly [K in keyof F as F[K] extends Given ? K : never]: Value<F[K]>
} & {
  -readonly [K in keyof F as F[K] extends Given ? never : K]?: Value<F[K]> | undefined
}

/** Has a value even if the key is absent, or cannot be absent. */
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

/** The documentation of a key, or of keys that mean the same: a row of the table on the plugin's page, in Markdown. */
export interface KeyDoc {
  /** The first cell of the row, where it is not the paths. */
  readonly keys?: string
  /** The paths of the keys, without indexes: "ipam.ranges[][].subnet". */
  readonly paths: readonly string[]
  readonly type?: string
  readonly default?: string
  readonly meaning: string
}
