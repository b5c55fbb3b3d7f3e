/** The schemas of an object's keys: a table of plain values, from which TypeScript infers the types. */
export interface Fields {
  readonly [key: string]: Schema
}

/** The kind and the limits of a value. */
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
  /** The description of valid values in errors, if the default for the kind does not fit. */
  readonly expected?: string
  /** Whether the key is required. Other keys may be absent or `null`, which means the same. */
  readonly required?: true
  readonly default?: unknown
  /** Whether an element of a list may be `null`. */
  readonly nullable?: true
}

interface BooleanSchema extends Common {
  readonly kind: "boolean"
  readonly default?: boolean
}

interface IntegerSchema extends Common {
  readonly kind: "integer"
  readonly min?: number
  readonly max?: number
  readonly default?: number
}

interface TextSchema extends Common {
  readonly kind: "text"
  /** Returns `undefined` for an invalid text. Errors then describe a valid text by `form`. */
  readonly check?: (text: string) => unknown
  readonly form?: string
  /** A regular expression for JSON Schema, which approximates `check`. */
  readonly pattern?: string
  readonly default?: string
}

/** A number with or without a unit: 5000000, "5Mbit". */
interface QuantitySchema extends Common {
  readonly kind: "quantity"
  readonly expected: string
  /** Returns the value of a number or text as written, or `undefined` if it is invalid. */
  readonly read: (written: string) => number | undefined
  readonly default?: number
}

interface ChoiceSchema extends Common {
  readonly kind: "choice"
  readonly of: readonly string[]
  readonly expected: string
  /** Whether a text matches in any letter case. The texts in `of` are in lower case, and so is the value. */
  readonly ignoreCase?: true
}

interface ListSchema extends Common {
  readonly kind: "list"
  readonly of: Schema
  readonly default?: readonly []
}

/** An object with arbitrary keys, whose values all have one schema. */
interface RecordSchema extends Common {
  readonly kind: "record"
  readonly of: Schema
}

/** An object with known keys. `expected` is also the description of a missing required key in errors. */
export interface ObjectSchema extends Common {
  readonly kind: "object"
  readonly fields: Fields
}

/** The type of an object with these keys. */
export type Infer<F extends Fields> = {
  -readonly [K in keyof F as F[K] extends Given ? K : never]: Value<F[K]>
} & {
  -readonly [K in keyof F as F[K] extends Given ? never : K]?: Value<F[K]> | undefined
}

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

/** The documentation of a key, or of keys with one meaning: a row of the table on the plugin's page, in Markdown. */
export interface KeyDoc {
  /** The first cell of the row, if it is not the paths. */
  readonly keys?: string
  /** The paths of the keys, without indexes: "ipam.ranges[][].subnet". */
  readonly paths: readonly string[]
  readonly type?: string
  readonly default?: string
  readonly meaning: string
}
