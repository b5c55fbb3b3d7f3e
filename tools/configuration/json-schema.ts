import type { Fields, KeyDoc, Schema } from "../../pkg/config/mod.ts"
import type { JsonObject, JsonValue } from "../../pkg/types/mod.ts"
import { describeKey } from "./key-docs.ts"
import { anything, networkKeys } from "./key-tables.ts"
import { findPlugin, type Known, knownPlugins } from "./plugins.ts"

/** The dialect of JSON Schema that most editors support. */
const dialect = "http://json-schema.org/draft-07/schema#"

export interface SchemaOptions {
  /** Whether to reject unknown keys. By default they are accepted, as the plugins accept them. */
  readonly strict?: boolean
}

interface Options extends SchemaOptions {
  /** Objects that accept other keys, because another schema defines those. */
  readonly open?: readonly string[]
}

/** Returns the JSON Schema of a plugin's object in a network list, with the keys of the IPAM plugin that it names. */
export function pluginSchema(known: Known, options: SchemaOptions = {}): JsonObject {
  const title = `Configuration of the CNI plugin ${known.name}`
  const definitions = known.kind === "interface" ? { definitions: ipamDefinitions(options) } : {}
  return { $schema: dialect, title, ...objectOf(known, options), ...definitions }
}

/** Returns the JSON Schema of a `.conflist` with the keys of this suite's plugins. Other plugins may have any keys. */
export function networkSchema(options: SchemaOptions = {}): JsonObject {
  const definitions = knownPlugins
    .filter(({ kind }) => kind !== "ipam")
    .map((known) => [known.name, objectOf(known, options)])
  const list = tableSchema(networkKeys, "", [], options)
  const names = definitions.map(([name]) => name as string)
  const plugin: JsonObject = {
    type: "object",
    required: ["type"],
    properties: { type: { anyOf: [{ enum: names }, { type: "string", minLength: 1 }] } },
    allOf: names.map((name) => ({
      if: { properties: { type: { const: name } }, required: ["type"] },
      // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
      then: { $ref: `#/definitions/${name}` },
    })),
  }
  const properties = {
    $schema: { type: "string" },
    ...(list.properties as JsonObject),
    plugins: { type: "array", minItems: 1, description: describeKey([], "plugins") ?? "", items: plugin },
  }
  return {
    $schema: dialect,
    title: "CNI network configuration list",
    ...list,
    properties,
    definitions: { ...Object.fromEntries(definitions), ...ipamDefinitions(options) },
  }
}

/** Returns the schemas of lists and of each plugin as text, by file name, for archives and `dist/schemas`. */
export function schemaFiles(): Record<string, string> {
  const own = knownPlugins.map((known) => [`${known.name}.json`, schemaText(pluginSchema(known))])
  return { "conflist.json": schemaText(networkSchema()), ...Object.fromEntries(own) }
}

/** Returns a schema as text: JSON with two spaces of indentation and a newline at the end. */
export function schemaText(schema: JsonObject): string {
  return `${JSON.stringify(schema, undefined, 2)}\n`
}

function objectOf(known: Known, options: SchemaOptions): JsonObject {
  const docs = known.keys
  const ipamHasMore = known.kind === "interface" ? { open: ["ipam", "runtimeConfig"] } : {}
  const schema = tableSchema(known.fields, "", docs, { ...options, ...ipamHasMore })
  const type = { const: known.name, description: describeKey([], "type") ?? "" }
  const properties = known.kind === "ipam" ? schema.properties : { ...(schema.properties as JsonObject), type }
  if (known.kind === "ipam") return { ...schema, properties: properties ?? {} }
  return { ...schema, properties: properties ?? {}, ...ipamChoices(known) }
}

/** Returns conditions on `ipam.type`: an object that names an IPAM plugin also has the keys of that plugin. */
function ipamChoices(known: Known): JsonObject {
  if (known.kind !== "interface" || known.delegates !== undefined) return {}
  const choices = ipamPlugins.map(({ name }): JsonObject => {
    const isNamed = { type: "object", properties: { type: { const: name } }, required: ["type"] }
    return {
      if: { properties: { ipam: isNamed }, required: ["ipam"] },
      // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
      then: { $ref: `#/definitions/ipam-${name}` },
    }
  })
  return { allOf: choices }
}

const ipamPlugins = knownPlugins.filter(({ kind }) => kind === "ipam")

/** Returns the schema of each IPAM plugin for an object that names it. */
function ipamDefinitions(options: SchemaOptions): JsonObject {
  const definition = (known: Known) => {
    const { properties, required } = tableSchema(known.fields, "", known.keys, {
      ...options,
      open: ["", "runtimeConfig"],
    })
    const has = (key: string) => Object.hasOwn(properties as JsonObject, key)
    const shared = ["ipam", "args", "runtimeConfig"].filter(has)
    return {
      properties: Object.fromEntries(shared.map((key) => [key, (properties as Record<string, JsonObject>)[key] ?? {}])),
      required: ((required ?? []) as string[]).filter((key) => key !== "type"),
    }
  }
  return Object.fromEntries(ipamPlugins.map((known) => [`ipam-${known.name}`, definition(known) as JsonObject]))
}

/** Objects that accept unknown keys, because other programs read them too. */
const open = new Set(["args", "args.cni"])

function tableSchema(fields: Fields, path: string, docs: readonly KeyDoc[], options: Options): JsonObject {
  const properties: JsonObject = {}
  const required: string[] = []
  for (const [key, field] of Object.entries(fields)) {
    const at = path === "" ? key : `${path}.${key}`
    const description = describeKey(docs, at)
    const schema = field.required
      ? valueSchema(field, at, docs, options)
      : orNull(valueSchema(field, at, docs, options))
    properties[key] = { ...schema, ...(description === undefined ? {} : { description }), ...defaultOf(field) }
    if (field.required) required.push(key)
  }
  return {
    type: "object",
    properties,
    ...(required.length > 0 ? { required } : {}),
    ...(options.strict && !open.has(path) && !options.open?.includes(path) ? { additionalProperties: false } : {}),
  }
}

function defaultOf(field: Schema): JsonObject {
  const { default: value } = field as { default?: JsonValue }
  return value === undefined ? {} : { default: value }
}

/** Returns the schema with `null` as a further value, which means an absent key. */
function orNull(schema: JsonObject): JsonObject {
  if (Object.keys(schema).length === 0) return schema
  if (typeof schema.type === "string") return { ...schema, type: [schema.type, "null"] }
  if (Array.isArray(schema.enum)) return { ...schema, enum: [...schema.enum, null] }
  return { anyOf: [schema, { type: "null" }] }
}

function valueSchema(schema: Schema, path: string, docs: readonly KeyDoc[], options: Options): JsonObject {
  switch (schema.kind) {
    case "boolean":
      return { type: "boolean" }
    case "integer":
      return { type: "integer", ...bounds(schema) }
    case "quantity":
      return { type: ["integer", "string"] }
    case "text":
      return { type: "string", ...(schema.pattern === undefined ? {} : { pattern: schema.pattern }) }
    case "choice":
      if (!schema.ignoreCase) return { enum: [...schema.of] }
      return {
        anyOf: [{ enum: [...schema.of] }, { type: "string", pattern: `^(${schema.of.map(inAnyCase).join("|")})$` }],
      }
    case "list": {
      const items = valueSchema(schema.of, `${path}[]`, docs, options)
      return { type: "array", items: schema.of.nullable ? orNull(items) : items }
    }
    case "record":
      return { type: "object", additionalProperties: valueSchema(schema.of, `${path}.*`, docs, options) }
    case "object":
      if (schema === anything) return {}
      return tableSchema(schema.fields, path, docs, options)
    default:
      return {} // the parser validates this kind, which JSON Schema cannot express
  }
}

function bounds({ min, max }: { readonly min?: number; readonly max?: number }): JsonObject {
  // The reference plugins treat values below 0 as "none". Editors should not suggest them.
  return { ...(min === undefined || min < 0 ? {} : { minimum: min }), ...(max === undefined ? {} : { maximum: max }) }
}

/** Returns a regular expression that ignores case, because JSON Schema has no such flag. */
function inAnyCase(text: string): string {
  const escaped = text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")
  return escaped.replace(/[a-z]/gi, (letter) => `[${letter.toLowerCase()}${letter.toUpperCase()}]`)
}

/** Returns the schema for a plugin's name or for "conflist". Returns undefined for other names. */
export function schemaOf(name: string, options: SchemaOptions = {}): JsonObject | undefined {
  const known = findPlugin(name)
  if (known !== undefined) return pluginSchema(known, options)
  return name === "conflist" ? networkSchema(options) : undefined
}
