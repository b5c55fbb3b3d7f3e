import { dns, type Fields, type Schema } from "../../pkg/config/mod.ts"
import { anything } from "../../suite/handed-on-keys.ts"

export { anything }

const text = { kind: "text" } as const
const list = (of: typeof text) => ({ kind: "list", of }) as const

const flag = { kind: "boolean" } as const

/** The keys of a network list other than `plugins` (CNI 1.1.0, "Configuration format"). */
export const networkKeys = {
  cniVersion: text,
  cniVersions: list(text),
  name: { kind: "text", required: true },
  disableCheck: flag,
  disableGC: flag,
  loadOnlyInlinedPlugins: flag,
} as const satisfies Fields

/** The keys that the specification defines for every plugin of a list (CNI 1.1.0, "Plugin configuration objects"). */
export const pluginKeys = {
  type: { kind: "text", required: true },
  name: text,
  cniVersion: text,
  capabilities: { kind: "record", of: flag },
  ipam: { kind: "object", fields: { type: text } },
  dns,
  args: anything,
} as const satisfies Fields

/** Keys that only a runtime may set (CNI 1.1.0, "Plugin configuration objects"). */
export const reservedKeys: readonly string[] = ["runtimeConfig", "prevResult"]

/** Merges tables of keys. Objects at the same key are merged; otherwise the second table's key wins. */
export function mergeFields(first: Fields, second: Fields): Fields {
  const merged: Record<string, Schema> = { ...first }
  for (const [key, schema] of Object.entries(second)) {
    const before = merged[key]
    merged[key] =
      schema !== anything && before?.kind === "object" && schema.kind === "object"
        ? { ...before, ...schema, fields: mergeFields(before.fields, schema.fields) }
        : schema
  }
  return merged
}

/** Returns the schema at a path such as `ipam.ranges[0][1].subnet`, or undefined if the table has no such key. */
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
