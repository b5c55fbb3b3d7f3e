import { expect, test } from "bun:test"
import { stringifyJson } from "../types/mod.ts"
import { chooseVersion, parseNetworkList, parsePlugin, parseSinglePlugin } from "./parse.ts"

const parse = (list: unknown) =>
  parseNetworkList(new TextEncoder().encode(typeof list === "string" ? list : JSON.stringify(list)))
const plugins = [{ type: "x" }]

test("#170 a plugin object without a type is refused", () => {
  for (const plugin of [{}, { type: "" }, { type: null }]) {
    expect(() => parse({ name: "net", plugins: [plugin] })).toThrow("missing 'type'")
  }
  expect(() => parse({ name: "net", plugins: [{ type: 5 }] })).toThrow("'type' must be a string")
  expect(() => parsePlugin(new TextEncoder().encode("{}"))).toThrow("missing 'type'")
})

test("a list where one plugin belongs is told by its file's name", () => {
  expect(() => parsePlugin(JSON.stringify({ name: "net", plugins }))).toThrow(
    expect.objectContaining({ details: expect.stringContaining("must end with .conflist") }),
  )
})

test("#171 a list without a name, or with one that is not a string, is refused", () => {
  for (const name of [undefined, "", 5, null]) expect(() => parse({ name, plugins })).toThrow("missing 'name'")
})

test("#172 plugins that is empty or no list is refused", () => {
  expect(() => parse({ name: "net", plugins: [] })).toThrow("no plugins in list")
  expect(() => parse({ name: "net", plugins: { type: "x" } })).toThrow("invalid 'plugins' type")
  expect(() => parse({ name: "net", plugins: ["x"] })).toThrow("expected an object")
})

test("#173 disableCheck may be a boolean or its text, in any letter case", () => {
  for (const yes of [true, "true", "TRUE"])
    expect(parse({ name: "net", plugins, disableCheck: yes }).disableCheck).toBe(true)
  for (const no of [false, "False"]) expect(parse({ name: "net", plugins, disableCheck: no }).disableCheck).toBe(false)
  expect(() => parse({ name: "net", plugins, disableCheck: "yes" })).toThrow('invalid value "yes" for disableCheck')
  expect(() => parse({ name: "net", plugins, disableGC: 1 })).toThrow("invalid type number for disableGC")
})

test("what is not standard JSON is refused with code 6", () => {
  for (const text of ["", "{", '{"name":"net"} x', "\uFEFF{}", "// {}", "[]"]) {
    expect(() => parse(text)).toThrow(expect.objectContaining({ code: 6 }))
  }
})

test("capabilities, ipam, dns and prevResult of the wrong type are refused", () => {
  for (const wrong of [
    { capabilities: { mac: 1 } },
    { ipam: "x" },
    { ipam: { type: 1 } },
    { dns: [] },
    { prevResult: 1 },
  ]) {
    expect(() => parse({ name: "net", plugins: [{ type: "x", ...wrong }] })).toThrow('Cannot use plugin "x"')
  }
})

test("keys that belong to the runtime pass with a warning", () => {
  const list = parse({ name: "net", plugins: [{ type: "x", prevResult: {}, "cni.dev/attachments": [] }] })
  expect(list.warnings).toEqual([
    'Plugin "x": key "prevResult" belongs to the runtime and should not be in a file',
    'Plugin "x": key "cni.dev/attachments" belongs to the runtime and should not be in a file',
  ])
  expect(parse({ name: "net", plugins: [{ type: "x", runtimeConfig: {}, dns: {} }] }).warnings).toHaveLength(1)
})

test("#187 unknown keys and all digits of numbers are kept", () => {
  const text = '{"type":"x","big":12345678901234567890,"deep":{"__proto__":[1.5,null]},"Odd":"<&>"}'
  const [plugin] = parse(`{"name":"net","plugins":[${text}]}`).plugins
  expect(stringifyJson(plugin?.raw)).toBe(text.replace("<&>", "\\u003c\\u0026\\u003e"))
})

test("#181 the highest of cniVersions is chosen", () => {
  expect(chooseVersion({ cniVersions: ["1.1.0", "0.4.0", "1.0.0"] })).toBe("1.1.0")
})

test("#182 versions that this library does not know yet are passed over", () => {
  expect(chooseVersion({ cniVersions: ["99.0.0", "0.4.0"], cniVersion: "98.0.0" })).toBe("0.4.0")
  expect(chooseVersion({ cniVersions: ["99.0.0"], cniVersion: "98.0.0" })).toBe("98.0.0")
})

test("#183 an entry that is not a version is an error", () => {
  for (const cniVersions of [["1.0.0", "x"], ["1.0.0", 1], null, "1.0.0", [null]]) {
    expect(() => chooseVersion({ cniVersions })).toThrow(expect.objectContaining({ code: 7 }))
  }
  expect(() => chooseVersion({ cniVersions: ["1.0.0"], cniVersion: "x" })).toThrow('"x" is not a version')
})

test("#184 cniVersion alone is kept as it is written", () => {
  expect(chooseVersion({ cniVersion: "1.2.3" })).toBe("1.2.3")
  expect(chooseVersion({})).toBe("")
})

test("#185 cniVersion counts among cniVersions", () => {
  expect(chooseVersion({ cniVersion: "1.0.0", cniVersions: ["0.1.0", "0.4.0"] })).toBe("1.0.0")
})

test("#186 no cniVersion and an empty cniVersions choose nothing", () => {
  expect(chooseVersion({ cniVersions: [] })).toBe("")
})

test.each([
  [[], 6, "Cannot decode the network configuration list: expected a JSON object, found []"],
  [{ plugins }, 7, "Cannot use network list: missing 'name'"],
  [{ name: "net", plugins: "x" }, 7, "invalid 'plugins' type string: expected a list"],
  [{ name: "net", plugins: [{ type: "x" }, []] }, 7, "Cannot use plugin 1: expected an object"],
  [{ name: "net", plugins: [{}] }, 7, "error parsing configuration: missing 'type'"],
  [{ name: "net", plugins: [{ type: 5 }] }, 7, "Cannot use plugin: 'type' must be a string"],
  [
    { name: "net", plugins: [{ type: "x", capabilities: [] }] },
    7,
    `Cannot use plugin "x": 'capabilities' must be an object of booleans`,
  ],
  [
    { name: "net", plugins: [{ type: "x", capabilities: { mac: true, ips: "yes" } }] },
    7,
    `Cannot use plugin "x": 'capabilities' must be an object of booleans`,
  ],
  [{ name: "net", plugins: [{ type: "x", ipam: [] }] }, 7, `Cannot use plugin "x": 'ipam' must be an object`],
  [
    { name: "net", plugins: [{ type: "x", ipam: { type: {} } }] },
    7,
    `Cannot use plugin "x": 'ipam.type' must be a string`,
  ],
  [{ name: "net", plugins: [{ type: "x", dns: 1 }] }, 7, `Cannot use plugin "x": 'dns' must be an object`],
  [
    { name: "net", plugins: [{ type: "x", prevResult: [] }] },
    7,
    `Cannot use plugin "x": 'prevResult' must be an object`,
  ],
  [{ name: "net", plugins, disableCheck: {} }, 7, "invalid type object for disableCheck"],
  [{ name: "net", plugins, disableGC: "" }, 7, 'invalid value "" for disableGC'],
  [{ name: "net", plugins, loadOnlyInlinedPlugins: 1 }, 7, "invalid type number for loadOnlyInlinedPlugins"],
  [{ name: "net", plugins, cniVersion: 1 }, 7, "invalid cniVersion type: expected a string, got number"],
  [{ name: "net", plugins, cniVersion: [] }, 7, "invalid cniVersion type: expected a string, got a list"],
  [{ name: "net", plugins, cniVersions: null }, 7, "invalid 'cniVersions' type: expected a list, got null"],
  [{ name: "net", plugins, cniVersions: {} }, 7, "invalid 'cniVersions' type: expected a list, got object"],
  [{ name: "net", plugins, cniVersions: [null] }, 7, "invalid 'cniVersions' entry: expected a string, got null"],
  [{ name: "net", plugins, cniVersions: ["x"] }, 7, 'Cannot choose a version: "x" is not a version'],
])("%j is refused with code %d: %s", (list, code, message) => {
  expect(() => parse(list)).toThrow(expect.objectContaining({ code, message }))
})

test("of a single plugin a refusal says what it is", () => {
  const single = (text: string) => () => parseSinglePlugin(new TextEncoder().encode(text))
  const message = `Cannot use plugin "x" as a network: missing 'name'`
  for (const name of ["", ',"name":""', ',"name":5'])
    expect(single(`{"type":"x"${name}}`)).toThrow(expect.objectContaining({ code: 7, message }))
  expect(single("[]")).toThrow("Cannot decode the plugin configuration: expected a JSON object, found []")
  expect(single('{"type":"x","name":"net","cniVersion":""}')().cniVersion).toBe("")
})

test("flags are off unless they are set, and null is not set", () => {
  const off = { disableCheck: false, disableGC: false, loadOnlyInlinedPlugins: false }
  expect(parse({ name: "net", plugins })).toMatchObject(off)
  expect(parse({ name: "net", plugins, disableCheck: null, disableGC: null })).toMatchObject(off)
  expect(parse({ name: "net", plugins, disableGC: true })).toMatchObject({ ...off, disableGC: true })
  expect(parse({ name: "net", plugins, loadOnlyInlinedPlugins: "True" })).toMatchObject({
    ...off,
    loadOnlyInlinedPlugins: true,
  })
})

test("null where a plugin has an object is nothing", () => {
  const empty = { type: "x", capabilities: null, ipam: null, dns: null, prevResult: null }
  expect(parse({ name: "net", plugins: [empty, { type: "y", ipam: { type: null } }] }).plugins).toHaveLength(2)
})
