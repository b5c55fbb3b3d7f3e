/**
 * Makes `toMatchObject` refuse values that it would compare only in part. bunfig.toml loads this file before every
 * test.
 *
 * The matcher ignores additional keys of objects, which is its purpose. But Bun treats a Uint8Array, a Map or a Set
 * like any object, so an empty one matches any other. A Date, a RegExp or an Error also matches any other. Compare an
 * object with such a value by `toEqual`, or compare the value by its own `expect`.
 */
import { expect } from "bun:test"

interface Matchers {
  toMatchObject(this: Matchers, expected: object): unknown
  toSatisfy(predicate: (received: unknown) => boolean): unknown
}

const matchers: Matchers = Object.getPrototypeOf(expect(undefined))
const matchObject = matchers.toMatchObject

matchers.toMatchObject = function toMatchObject(expected) {
  const compare = (received: unknown) => {
    const refusal = partlyCompared(expected, received, "")
    if (refusal !== undefined) throw new TypeError(refusal)
    return matchObject.call(this, expected)
  }
  const received = receivedBy(this)
  // With `resolves` and `rejects`, the received value is the promise.
  return received instanceof Promise ? received.then(compare, compare) : compare(received)
}

function receivedBy(matchers: Matchers): unknown {
  let value: unknown
  try {
    matchers.toSatisfy((received) => {
      value = received
      return true
    })
  } catch {
    // `expect(…).not` has already read the value.
  }
  return value
}

/**
 * Describes a value that `toMatchObject` would compare in part, and what to use instead; undefined if none exists.
 */
export function partlyCompared(expected: unknown, received: unknown, path: string): string | undefined {
  if (typeof expected !== "object" || expected === null || isMatcher(expected)) return undefined
  for (const value of [expected, received]) {
    const kind = partialKind(value, value === expected)
    if (kind) {
      const place = path === "" ? "" : ` at "${path}"`
      return `Cannot match the ${kind}${place} with toMatchObject: it would be compared in part; use toEqual`
    }
  }
  for (const [key, inner] of Object.entries(expected)) {
    const refusal = partlyCompared(inner, property(received, key), path === "" ? key : `${path}.${key}`)
    if (refusal !== undefined) return refusal
  }
  return undefined
}

/** Reports whether a value is a matcher such as `expect.any(Number)`, which compares by its own rule. */
function isMatcher(value: object): boolean {
  return /^\[object Expect/.test(Object.prototype.toString.call(value))
}

/**
 * Returns the kind of a value with content outside its keys, such as "Map". Any class counts if the value `isExpected`.
 */
function partialKind(value: unknown, isExpected: boolean): string | undefined {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined
  const prototype = Object.getPrototypeOf(value)
  if (prototype === Object.prototype || prototype === null) return undefined
  const isContainer =
    ArrayBuffer.isView(value) || [ArrayBuffer, Map, Set, Date, RegExp].some((kind) => value instanceof kind)
  return isExpected || isContainer ? prototype.constructor.name : undefined
}

function property(value: unknown, key: string): unknown {
  return typeof value === "object" && value !== null ? Reflect.get(value, key) : undefined
}
