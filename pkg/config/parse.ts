import type { BaseIssue, BaseSchema, InferOutput } from "valibot"
import { safeParse } from "valibot"
import { CniError, Code, describe, foldKeys, isJsonObject, type JsonObject, type JsonValue } from "../types/mod.ts"

type Schema = BaseSchema<unknown, unknown, BaseIssue<unknown>>

/**
 * A plugin's configuration as its schema says, defaults filled in. Keys match ignoring case at every level, `null` counts
 * as absent, unknown keys are let through. Throws code 7 that names the key, what was expected and what was found.
 *
 * With `lenient`, for DEL and GC, a top-level key that is wrong counts as absent instead: a configuration that was
 * broken since ADD must not stop a cleanup.
 */
export function parseConfig<S extends Schema>(schema: S, raw: JsonObject, lenient = false): InferOutput<S> {
  let object = fold(schema, raw)
  for (;;) {
    const outcome = safeParse(schema, object, { abortEarly: true })
    if (outcome.success) return outcome.output
    const issue = outcome.issues[0]
    const broken = issue.path?.[0]?.key
    if (lenient && typeof broken === "string" && isJsonObject(object) && broken in object) {
      const { [broken]: _, ...rest } = object
      object = rest
      continue
    }
    throw invalidConfig(pathOf(issue), issue.message, issue.input)
  }
}

/** The error for a configuration that cannot be used: code 7 with key, expectation and value. */
export function invalidConfig(key: string, expected: string, value: unknown): CniError {
  return new CniError(Code.InvalidNetworkConfig, `Cannot use "${key}": expected ${expected}, found ${describe(value)}`)
}

/** "ipam.ranges[0].subnet" */
function pathOf(issue: BaseIssue<unknown>): string {
  return (issue.path ?? []).reduce((path, { key }) => {
    if (typeof key === "number") return `${path}[${key}]`
    return path === "" ? String(key) : `${path}.${key}`
  }, "")
}

/** The value with the keys in the schema's spelling, at every level that the schema knows. */
function fold(schema: Schema, value: JsonValue): JsonValue {
  const inner = schema as Schema & {
    wrapped?: Schema
    item?: Schema
    entries?: Record<string, Schema>
    pipe?: Schema[]
  }
  if (inner.wrapped) return fold(inner.wrapped, value)
  if (inner.item && Array.isArray(value)) return value.map((element) => fold(inner.item as Schema, element))
  if (!inner.entries || !isJsonObject(value)) return value
  const folded = foldKeys(value, Object.keys(inner.entries))
  for (const key of Object.keys(folded)) {
    const known = Object.hasOwn(inner.entries, key) ? inner.entries[key] : undefined
    const member = folded[key] ?? null
    if (member === null) delete folded[key]
    else if (known) folded[key] = fold(known, member)
  }
  return folded
}
