import { expect, test } from "bun:test"
import type { Fields, Schema } from "../../pkg/config/mod.ts"
import { pluginNames } from "../plugins.ts"
import { describeKey, keyDocs } from "./key-docs.ts"
import { schemaAt } from "./key-tables.ts"
import { capabilitiesOf, findPlugin, knownPlugins } from "./plugins.ts"

test("every plugin of the executable has its row here: schemas, lint and manual pages are made from it", () => {
  expect(knownPlugins.map(({ name }) => name)).toEqual([...pluginNames])
})

test("every plugin has its table of keys but loopback, which has no keys of its own", () => {
  expect(knownPlugins.filter(({ plugin }) => plugin.fields === undefined).map(({ name }) => name)).toEqual(["loopback"])
})

/** The paths of a table's keys, "ipam.ranges[][].subnet". */
function pathsOf(fields: Fields, path = ""): string[] {
  return Object.entries(fields).flatMap(([key, schema]) => inside(schema, path === "" ? key : `${path}.${key}`))
}

function inside(schema: Schema, path: string): string[] {
  if (schema.kind === "object") return [path, ...pathsOf(schema.fields, path)]
  if (schema.kind === "list" && schema.of.kind !== "text") return [path, ...inside(schema.of, `${path}[]`).slice(1)]
  return [path]
}

/** Keys that their object's row explains, or that say it themselves. */
const explainedAbove = /^(runtimeConfig|args)(\.cni)?$|\[\]\.|^args\.cni\.|^ipam\.ranges\[\]|^capabilities\./

test.each(knownPlugins.map(({ name }) => name))("%s: its page says what each of its keys means", (name) => {
  const known = findPlugin(name)
  if (known === undefined) throw new Error(name)
  const docs = keyDocs(known)
  const own = pathsOf(known.plugin.fields ?? {})
  const silent = own.filter((path) => !explainedAbove.test(path) && describeKey(docs, path) === undefined)
  expect(silent).toEqual([])
})

test.each(knownPlugins.map(({ name }) => name))("%s: its page names no key that it does not have", (name) => {
  const known = findPlugin(name)
  if (known === undefined) throw new Error(name)
  const unknown = keyDocs(known)
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
  const of = (name: string) => capabilitiesOf(findPlugin(name) ?? { plugin: {} as never })
  expect(of("portmap")).toEqual(["portMappings"])
  expect(of("bridge")).toEqual(["mac"])
  expect(of("host-local").sort()).toEqual(["ipRanges", "ips"])
  expect(of("loopback")).toEqual([])
})
