import { expect, test } from "bun:test"
import type { Fields, KeyDoc, Schema } from "../../pkg/config/mod.ts"
import { plugins } from "../../suite/plugins.ts"
import { cellsOf, describeKey, firstTable, plain } from "./key-docs.ts"
import { anything, mergeFields, schemaAt } from "./key-tables.ts"
import { capabilitiesOf, findPlugin, knownPlugins } from "./plugins.ts"

test("every plugin has its table of keys but loopback, which has no keys of its own", () => {
  expect(knownPlugins.filter(({ ownFields }) => Object.keys(ownFields).length === 0).map(({ name }) => name)).toEqual([
    "loopback",
  ])
})

/** Returns the paths of a table's keys, such as "ipam.ranges[][].subnet". */
function pathsOf(fields: Fields, path = ""): string[] {
  return Object.entries(fields).flatMap(([key, schema]) => inside(schema, path === "" ? key : `${path}.${key}`))
}

function inside(schema: Schema, path: string): string[] {
  if (schema.kind === "object") return [path, ...pathsOf(schema.fields, path)]
  if (schema.kind === "list" && schema.of.kind !== "text") return [path, ...inside(schema.of, `${path}[]`).slice(1)]
  return [path]
}

/** Keys that the description of their object, or their name, explains. */
const explainedAbove = /^(runtimeConfig|args)(\.cni)?$|\[\]\.|^args\.cni\.|^ipam\.ranges\[\]|^capabilities\./

test.each(knownPlugins.map(({ name }) => name))("%s: it says what each of its keys means", (name) => {
  const known = findPlugin(name)
  if (known === undefined) throw new Error(name)
  const docs = known.keys
  const own = pathsOf(known.ownFields)
  const silent = own.filter((path) => !explainedAbove.test(path) && describeKey(docs, path) === undefined)
  expect(silent).toEqual([])
})

test.each(knownPlugins.map(({ name }) => name))("%s: it describes no key that it does not have", (name) => {
  const known = findPlugin(name)
  if (known === undefined) throw new Error(name)
  const unknown = known.keys
    .flatMap(({ paths }) => paths)
    .filter(
      (path) =>
        schemaAt(
          known.fields,
          path.split(".").flatMap((part) => part.match(/\[\]|[^[\]]+/g) ?? []),
        ) === undefined,
    )
  expect(unknown).toEqual([])
})

test("capabilities are what a plugin reads of runtimeConfig", () => {
  const of = (name: string) => capabilitiesOf(findPlugin(name) ?? { ownFields: {} })
  expect(of("portmap")).toEqual(["portMappings"])
  expect(of("bridge")).toEqual(["mac"])
  expect(of("host-local").sort()).toEqual(["ipRanges", "ips"])
  expect(of("loopback")).toEqual([])
})

/** Returns the cells of the table of keys on a plugin's page, by the documentation in its `config.ts`. */
function tableOf(docs: readonly KeyDoc[]): string[][] {
  const has = (column: "type" | "default") => docs.some((doc) => doc[column] !== undefined)
  const columns = (["keys", "type", "default", "meaning"] as const).filter(
    (column) => column === "keys" || column === "meaning" || has(column),
  )
  const heads = columns.map((column) => (column === "keys" ? "key" : column))
  const keysOf = ({ keys, paths }: KeyDoc) => keys ?? paths.map((path) => `\`${path}\``).join(", ")
  return [heads, ...docs.map((doc) => columns.map((column) => (column === "keys" ? keysOf(doc) : (doc[column] ?? ""))))]
}

test.each(plugins.map(({ plugin }) => plugin.name))(
  "%s: the table of keys on its page is that of config.ts",
  (name) => {
    const row = plugins.find(({ plugin }) => plugin.name === name)
    const [, table = ""] = /^## Keys\n(?:(?!## ).*\n)*?((?:\|.*\n)+)/m.exec(row?.page ?? "") ?? []
    const [heads, , ...rows] = firstTable(table)
    expect(heads === undefined ? [] : [heads, ...rows]).toEqual(row?.keys ? tableOf(row.keys) : [])
  },
)

test("a key is described by its plugin, or else by the specification", () => {
  const docs = [{ paths: ["ipam.a", "ipam.b"], default: "5", meaning: "[one](x.md), **two**" }]
  expect(describeKey(docs, "ipam.b")).toBe("one, two")
  expect(describeKey([], "ipam.routes[].gw")).toBe("the gateway; by default that of the address")
  expect(describeKey([], "ipam.dns.search")).toBe("search domains for short names")
  expect(describeKey([], "type")).toBe("the plugin: the name of its executable")
  expect(describeKey([], "nothing")).toBeUndefined()
})

test("cells of a table, and words without the marks of Markdown", () => {
  expect(cellsOf("| a | b \\| c |  |  ")).toEqual(["a", "b | c", ""])
  expect(firstTable("x\n| a |\n| b |\ny\n| c |")).toEqual([["a"], ["b"]])
  expect([firstTable("x"), firstTable("| a |")]).toEqual([[], [["a"]]])
  expect(plain("[a](b) and [c](d), `e` `f` **g** **h**")).toBe("a and c, e f g h")
})

const text = { kind: "text" } as const
const object = (fields: Fields): Schema => ({ kind: "object", fields })

test("of two tables each key is there, and of objects that both have the keys of both", () => {
  const merged = mergeFields(
    { a: text, both: object({ x: text }), open: object({ x: text }), changed: text },
    { b: text, both: object({ y: text }), open: anything, changed: { kind: "integer" } },
  )
  expect(merged).toEqual({
    a: text,
    b: text,
    both: object({ x: text, y: text }),
    open: anything,
    changed: { kind: "integer" },
  })
  expect(merged.open).toBe(anything)
})

test("what stands at a path of a table", () => {
  const table: Fields = {
    a: object({ list: { kind: "list", of: object({ x: text }) }, map: { kind: "record", of: text } }),
  }
  expect(schemaAt(table, ["a", "list", 0, "x"])).toBe(text)
  expect(schemaAt(table, ["a", "map", "any"])).toBe(text)
  expect(schemaAt(table, [])).toEqual(object(table))
  for (const path of [["b"], ["b", "c"], ["toString"], ["a", "map", "any", "x"]])
    expect(schemaAt(table, path)).toBeUndefined()
})
