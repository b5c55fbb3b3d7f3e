import {
  CniError,
  Code,
  describe,
  foldKeys,
  isCniError,
  isJsonObject,
  isRawNumber,
  type JsonObject,
  type JsonValue,
} from "../types/mod.ts"
import type { Fields, Infer, ObjectSchema, Schema } from "./schema.ts"

/**
 * Reads a plugin's configuration by its schema, and fills in the defaults. Keys match in any letter case at every
 * level, `null` counts as absent, and unknown keys are ignored. Throws code 7 with the key, the expected form and the
 * value.
 *
 * With `lenient`, for DEL and GC, a top-level key with an invalid value counts as absent, because a configuration that
 * was broken after ADD must not prevent a cleanup.
 */
export function parseConfig<F extends Fields>(fields: F, raw: JsonObject, lenient = false): Infer<F> {
  return readObject({ kind: "object", fields }, raw, "", lenient) as Infer<F>
}

/** Returns the error for an invalid configuration: code 7 with the key, the expected form and the value. */
export function invalidConfig(key: string, expected: string, value: unknown): CniError {
  return new CniError(Code.InvalidNetworkConfig, `Cannot use "${key}": expected ${expected}, found ${describe(value)}`)
}

/** Reads an object. `path` is its path in the configuration, for errors: "ipam.ranges[0]", or "" at the top. */
function readObject(schema: ObjectSchema, object: JsonObject, path: string, lenient = false): object {
  const { fields } = schema
  const keys = Object.keys(fields)
  const given = foldKeys(object, keys)
  const read: Record<string, unknown> = {}
  for (const key of keys) {
    const field = fields[key] as Schema
    const written = given[key] ?? null
    if (written === null && !field.required) {
      if (field.default !== undefined) read[key] = field.default
      continue
    }
    const at = path === "" ? key : `${path}.${key}`
    let value: unknown
    try {
      if (written !== null) value = readValue(field, written, at)
    } catch (error) {
      if (!lenient || !isCniError(error)) throw error
    }
    if (value === undefined) {
      if (field.required) throw invalidConfig(at, schema.expected ?? expectation(field), undefined)
      value = field.default
    }
    if (value !== undefined) read[key] = value
  }
  return read
}

function readValue(schema: Schema, value: JsonValue, path: string): unknown {
  switch (schema.kind) {
    case "boolean":
      if (typeof value === "boolean") return value
      break
    case "integer": {
      const { min = Number.NEGATIVE_INFINITY, max = Number.POSITIVE_INFINITY } = schema
      if (typeof value === "number" && Number.isInteger(value) && value >= min && value <= max) return value
      break
    }
    case "text":
      if (typeof value !== "string") break
      if (!schema.check || schema.check(value) !== undefined) return value
      throw invalidConfig(path, schema.form ?? expectation(schema), value)
    case "quantity": {
      const written = typeof value === "string" ? value : writtenNumber(value)
      const quantity = written === undefined ? undefined : schema.read(written)
      if (quantity !== undefined) return quantity
      break
    }
    case "choice": {
      if (typeof value !== "string") break
      const text = schema.ignoreCase ? value.toLowerCase() : value
      if (schema.of.includes(text)) return text
      throw invalidConfig(path, schema.expected, text)
    }
    case "list": {
      if (!Array.isArray(value)) break
      const { of } = schema
      const list: unknown[] = []
      for (const element of value) {
        const isHole = element === null && of.nullable
        list.push(isHole ? null : readValue(of, element, `${path}[${list.length}]`))
      }
      return list
    }
    case "record": {
      if (!isJsonObject(value)) break
      const record: Record<string, unknown> = { ...value } // has "__proto__" as a plain key, which can then be assigned
      for (const key of Object.keys(value)) record[key] = readValue(schema.of, value[key] ?? null, `${path}.${key}`)
      return record
    }
    case "object":
      if (isJsonObject(value)) return readObject(schema, value, path)
  }
  throw invalidConfig(path, expectation(schema), value)
}

function writtenNumber(value: JsonValue): string | undefined {
  if (typeof value === "number") return String(value)
  return isRawNumber(value) ? value.rawJSON : undefined
}

/** Returns the description of valid values in errors: "true or false". */
export function expectation(schema: Schema): string {
  if (schema.expected !== undefined) return schema.expected
  switch (schema.kind) {
    case "boolean":
      return "true or false"
    case "integer":
      return schema.min === undefined ? "a whole number" : `a whole number from ${schema.min} to ${schema.max}`
    case "text":
      return "a text"
    case "list":
      return "a list"
    default:
      return "an object"
  }
}
