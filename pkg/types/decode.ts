import { CniError, Code } from "./error.ts"
import { describe, isJsonObject, type JsonObject, type JsonValue } from "./json.ts"

/**
 * Returns the object, or a copy with the standard spelling of every known key. Upstream's decoder ignores case, and
 * containerd sends `HostPort` for `hostPort`. An exact match wins, otherwise the last match. Unknown keys stay as
 * written.
 */
export function foldKeys(object: JsonObject, known: readonly string[]): JsonObject {
  const keys = Object.keys(object)
  if (keys.every((key) => known.includes(key))) return object
  const folded = { ...object } // unlike an assignment, this treats "__proto__" as a plain key
  for (const key of keys) {
    const name = known.includes(key) ? key : spellingOf(key, known)
    if (name === key) continue
    if (!Object.hasOwn(object, name)) folded[name] = object[key] ?? null
    delete folded[key]
  }
  return folded
}

function spellingOf(key: string, known: readonly string[]): string {
  for (const name of known) if (name.length === key.length && isSameKey(name, key)) return name
  return key
}

/** Returns the value of one key, matched as in `foldKeys`. Returns `undefined` if it is absent or `null`. */
export function member(object: JsonObject, key: string): JsonValue | undefined {
  if (Object.hasOwn(object, key)) return object[key] ?? undefined
  let found: JsonValue | undefined
  for (const name in object) if (name.length === key.length && isSameKey(name, key)) found = object[name]
  return found ?? undefined
}

function isSameKey(a: string, b: string): boolean {
  return a.length === b.length && fold(a) === fold(b)
}

/** Returns a key in lower case, with "ſ" as "s": no other letter equals an ASCII letter without becoming one. */
function fold(key: string): string {
  return key.toLowerCase().replaceAll("ſ", "s")
}

/**
 * Reads the keys of one JSON object into typed values. Each method reads one key in any letter case. An absent key and
 * `null` are `undefined`. Throws code 6 for a value of another type; the error names the path, such as
 * `ips[0].address`.
 */
export class Decoder {
  readonly #object: JsonObject
  readonly #path: string
  /** The lengths of the keys, modulo 32, as bits. They show quickly that a key is absent, as most keys are. */
  readonly #lengths: number

  constructor(value: unknown, path: string) {
    if (!isJsonObject(value)) throw wrongType(path, "an object", value)
    this.#object = value
    this.#path = path
    let lengths = 0
    for (const name in value) lengths |= 1 << (name.length & 31)
    this.#lengths = lengths
  }

  /** Returns the path of a key for messages: `ips[0].address`. */
  path(key: string): string {
    return this.#path === "" ? key : `${this.#path}.${key}`
  }

  value(key: string): JsonValue | undefined {
    return this.#object[key] ?? (this.#mayHave(key) ? member(this.#object, key) : undefined)
  }

  /** Reports whether the key exists, even with the value `null`. */
  has(key: string): boolean {
    return this.#mayHave(key) && Object.keys(this.#object).some((name) => isSameKey(name, key))
  }

  #mayHave(key: string): boolean {
    return (this.#lengths & (1 << (key.length & 31))) !== 0
  }

  string(key: string): string | undefined {
    const value = this.value(key)
    if (value === undefined || typeof value === "string") return value
    throw wrongType(this.path(key), "a string", value)
  }

  integer(key: string): number | undefined {
    const value = this.value(key)
    if (value === undefined || (typeof value === "number" && Number.isSafeInteger(value))) return value
    throw wrongType(this.path(key), "an integer", value)
  }

  object(key: string): JsonObject | undefined {
    const value = this.value(key)
    if (value === undefined || isJsonObject(value)) return value
    throw wrongType(this.path(key), "an object", value)
  }

  /** Returns the elements of a list, each as read by `read`. Returns an empty list if the key is absent. */
  list<T>(key: string, read: (value: JsonValue, path: () => string) => T): T[] {
    const value = this.value(key)
    if (value === undefined) return []
    if (!Array.isArray(value)) throw wrongType(this.path(key), "a list", value)
    return value.map((element, at) => read(element, () => `${this.path(key)}[${at}]`))
  }

  /**
   * Returns a key's text, converted by `read`, which returns `undefined` if the text is invalid. "" counts as absent.
   */
  text(key: string, read: (text: string) => string | undefined, expected: string): string | undefined {
    const text = this.string(key)
    if (text === undefined || text === "") return undefined
    const value = read(text)
    if (value === undefined) throw wrongType(this.path(key), expected, text)
    return value
  }
}

export function readString(value: JsonValue, path: () => string): string {
  if (typeof value === "string") return value
  throw wrongType(path(), "a string", value)
}

/** The description of a key for `decodeObject`. */
export interface Member {
  readonly expected: string
  /** Returns the value in normal form, or undefined if it is invalid. */
  readonly read: (value: JsonValue) => JsonValue | undefined
  /** A value that counts as absent, like `null`. */
  readonly absent?: JsonValue
}

/**
 * Returns the keys of an object that are in a table, matched as in `foldKeys`. Iterates over the keys of the object,
 * which are fewer than the table's. Throws like `Decoder`.
 */
export function decodeObject(value: JsonValue, members: ReadonlyMap<string, Member>, path: () => string): JsonObject {
  if (!isJsonObject(value)) throw wrongType(path(), "an object", value)
  const decoded: JsonObject = {}
  for (const key in value) {
    const name = members.has(key) ? key : spellingOf(key, [...members.keys()])
    if (name !== key && Object.hasOwn(value, name)) continue
    const known = members.get(name)
    if (!known) continue
    const written = value[key] ?? null
    const read = written === null ? known.absent : known.read(written)
    if (read === undefined && written !== null) throw wrongType(`${path()}.${name}`, known.expected, written)
    if (read === known.absent) delete decoded[name]
    else decoded[name] = read as JsonValue
  }
  return decoded
}

/** Returns the error for a value of the wrong type: code 6, with the key, the expected type and the value. */
export function wrongType(path: string, expected: string, value: unknown): CniError {
  return new CniError(Code.Decoding, `Cannot decode "${path}": expected ${expected}, found ${describe(value)}`)
}

/** A type whose optional properties may also be passed as `undefined`. */
export type Loose<T> = { [K in keyof T]: undefined extends Pick<T, K>[K] ? T[K] | undefined : T[K] }

/** Returns the value without its `undefined` properties. */
export function present(value: Record<string, JsonValue | undefined>): JsonObject
export function present<T extends object>(value: Loose<T>): T
export function present(value: object): object {
  const given = value as Record<string, unknown>
  const kept: Record<string, unknown> = {}
  for (const key in given) if (given[key] !== undefined) kept[key] = given[key]
  return kept
}
