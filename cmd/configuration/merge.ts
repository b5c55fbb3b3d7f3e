import type { Fields, Schema } from "../../pkg/config/mod.ts"

/** Two tables of keys as one. Where both have a key that is an object, its keys are those of both; else the second has it. */
export function mergeFields(first: Fields, second: Fields): Fields {
  const merged: Record<string, Schema> = { ...first }
  for (const [key, schema] of Object.entries(second)) {
    const before = merged[key]
    merged[key] =
      before?.kind === "object" && schema.kind === "object"
        ? { ...before, ...schema, fields: mergeFields(before.fields, schema.fields) }
        : schema
  }
  return merged
}

/** The schema that stands at a path such as `ipam.ranges[0][1].subnet`; undefined where the table has no such key. */
export function schemaAt(fields: Fields, path: readonly (string | number)[]): Schema | undefined {
  let schema: Schema | undefined = { kind: "object", fields }
  for (const step of path) {
    if (schema === undefined) return undefined
    if (schema.kind === "object") schema = Object.hasOwn(schema.fields, step) ? schema.fields[step] : undefined
    else if (schema.kind === "list" || schema.kind === "record") schema = schema.of
    else return undefined
  }
  return schema
}
