import { describe, expect, test } from "bun:test"
import Ajv from "ajv"
import { type Fields, parseConfig, type Schema } from "../../pkg/config/mod.ts"
import { type JsonObject, type JsonValue, parseNetworkConfig } from "../../pkg/types/mod.ts"
import { networkSchema, pluginSchema, schemaOf } from "./json-schema.ts"
import { findPlugin, type Known, knownPlugins } from "./plugins.ts"

const names = knownPlugins.map(({ name }) => name)

function compile(schema: JsonObject): (value: unknown) => boolean {
  const validate = new Ajv({ strict: false, allErrors: true }).compile(schema)
  return (value) => validate(value) === true
}

function known(name: string): Known {
  const found = findPlugin(name)
  if (found === undefined) throw new Error(`no plugin ${name}`)
  return found
}

/** Valid and invalid values of every kind, at their limits. */
const values: readonly JsonValue[] = [
  ...[null, true, false, 0, 1, -1, 1.5, 67, 68, 4094, 4095, 65535, 65536, 2 ** 31, 2 ** 32],
  ...[
    "",
    "x",
    "eth0",
    "a/b",
    "..",
    "sixteen-letters1",
    "0a:58:0a:01:02:03",
    "0a-58",
    "tcp",
    "TCP",
    "802.1AD",
    "bridge",
  ],
  ...["l3", "nftables", "10.0.0.0/24", "10.0.0.1", "/sys/devices/x", "0000:03:00.0", "a;b", "/dev/../x"],
  ...[[], [null], [1], ["x"], [[]], [{}], [[{}]], [[{ subnet: "10.0.0.0/24" }]], [{ address: "10.0.0.2/24" }]],
  ...[{}, { x: 1 }, { x: true }, { x: "1" }, { id: 5 }, { mac: 1 }, { cni: 1 }, { cni: { mac: "zz" } }],
  [{ hostPort: 80, containerPort: 80, protocol: "tcp" }],
  [{ hostPort: 0, containerPort: 80, protocol: "tcp" }],
  [{ hostPort: 80, protocol: "tcp" }],
]

/** A valid configuration for each plugin, which tests then change. */
const good: Readonly<Record<string, JsonObject>> = {
  dhcp: { ipam: { type: "dhcp" } },
  dummy: { ipam: { type: "static" } },
  "host-device": { device: "eth0" },
  "host-local": { ipam: { type: "host-local", subnet: "10.0.0.0/24" } },
  ptp: { ipam: { type: "static" } },
  static: { ipam: { type: "static", addresses: [] } },
  vlan: { master: "eth0", ipam: { type: "static" } },
}

/** Returns the path of every key of a table, including keys of objects in it. */
function placesOf(fields: Fields, path: readonly string[] = []): string[][] {
  return Object.entries(fields).flatMap(([key, schema]) => {
    const at = [...path, key]
    return schema.kind === "object" ? [at, ...placesOf(schema.fields, at)] : [at]
  })
}

function withValue(config: JsonObject, [key = "", ...rest]: readonly string[], value: JsonValue): JsonObject {
  if (rest.length === 0) return { ...config, [key]: value }
  const inner = config[key]
  const object = typeof inner === "object" && inner !== null && !Array.isArray(inner) ? (inner as JsonObject) : {}
  return { ...config, [key]: withValue(object, rest, value) }
}

function takes(run: () => unknown): boolean {
  try {
    run()
    return true
  } catch {
    return false
  }
}

/** Reports whether only the tables can judge a value: a text for a function, or a list in place of an object. */
function isBeyondSchemas(schema: Schema | undefined, value: JsonValue): boolean {
  if (schema === undefined) return false
  if (schema.kind === "object" || schema.kind === "record") {
    if (Array.isArray(value)) return true // the parser accepts a list for an object without keys
    if (schema.kind === "record" || typeof value !== "object" || value === null) return false
    const members = Object.entries(value as JsonObject)
    return members.some(([key, member]) => isBeyondSchemas(schema.fields[key], member))
  }
  if (schema.kind === "list") return Array.isArray(value) && value.some((one) => isBeyondSchemas(schema.of, one))
  if (!["boolean", "integer", "text", "choice"].includes(schema.kind)) return true // JSON Schema has no such kind
  return schema.kind === "text" && schema.check !== undefined && schema.pattern === undefined
}

describe.each(names)("the schema of %s", (name) => {
  const plugin = known(name)
  const fits = compile(pluginSchema(plugin))
  const base: JsonObject = { cniVersion: "1.1.0", name: "net", type: name, ...good[name] }

  test("takes what the plugin takes", () => {
    expect(fits(base)).toBe(true)
  })

  test("takes and refuses every value of every key as the plugin's table does", () => {
    const different: string[] = []
    for (const path of placesOf(plugin.ownFields)) {
      for (const value of values) {
        const config = withValue(base, path, value)
        const table: Schema = { kind: "object", fields: plugin.ownFields }
        const asTable = takes(() => void parseConfig<Fields>(plugin.ownFields, config))
        if (asTable === fits(config) || isBeyondSchemas(table, config)) continue
        // The specification's keys are read before the plugin's.
        if (asTable && !takes(() => parseNetworkConfig(config))) continue
        different.push(`${path.join(".")}: ${JSON.stringify(value)} is ${asTable ? "taken" : "refused"} by the table`)
      }
    }
    expect(different).toEqual([])
  })

  test("refuses nothing that the plugin takes for ADD", () => {
    const refused: string[] = []
    for (const path of placesOf(plugin.fields)) {
      for (const value of values) {
        const config = withValue(base, path, value)
        const isTaken = takes(() => {
          const network = parseNetworkConfig(config)
          plugin.config(network, { verb: "ADD", args: "", raw: config })
          // The IPAM plugin reads the same object.
          findPlugin(network.ipam?.type ?? "")?.config(network, { verb: "ADD", args: "", raw: config })
        })
        const isOther = path[0] === "type" || path[0] === "capabilities" // a key of the runtime
        const table: Schema = { kind: "object", fields: plugin.fields }
        if (isTaken && !isOther && !fits(config) && !isBeyondSchemas(table, config))
          refused.push(`${path.join(".")}: ${JSON.stringify(value)}`)
      }
    }
    expect(refused).toEqual([])
  })
})

describe("the schema of lists", () => {
  const fits = compile(networkSchema())
  const list = (...plugins: JsonValue[]) => ({ cniVersion: "1.1.0", name: "net", plugins })
  const bridge = { type: "bridge", ipam: { type: "host-local", ranges: [[{ subnet: "10.0.0.0/24" }]] } }

  test("takes lists that are right, and plugins that it does not know", () => {
    expect(fits(list(bridge))).toBe(true)
    expect(fits(list(bridge, { type: "portmap", capabilities: { portMappings: true } }))).toBe(true)
    expect(fits(list({ type: "calico", anything: [1] }))).toBe(true)
    expect(fits({ $schema: "./schemas/conflist.json", ...list(bridge) })).toBe(true)
  })

  test("refuses lists that are wrong", () => {
    expect(fits({ cniVersion: "1.1.0", plugins: [bridge] })).toBe(false)
    expect(fits(list())).toBe(false)
    expect(fits(list({}))).toBe(false)
    expect(fits(list({ ...bridge, isGateway: "yes" }))).toBe(false)
    expect(fits(list({ ...bridge, capabilities: { mac: 1 } }))).toBe(false)
  })

  test("has the keys of the IPAM plugin that is named, and of no other", () => {
    expect(fits(list({ type: "bridge", ipam: { type: "host-local", ranges: "10.0.0.0/24" } }))).toBe(false)
    expect(fits(list({ type: "bridge", ipam: { type: "static", addresses: [{}] } }))).toBe(false)
    expect(fits(list({ type: "bridge", ipam: { type: "dhcp-of-another-suite", ranges: 5 } }))).toBe(true)
  })
})

test("a strict schema refuses keys that no plugin knows, at every depth, and nothing else", () => {
  const fits = compile(schemaOf("conflist", { strict: true }) ?? {})
  const list = (bridge: JsonObject) => ({ cniVersion: "1.1.0", name: "n", plugins: [{ type: "bridge", ...bridge }] })
  const ranges = [[{ subnet: "10.0.0.0/24", gateway: "10.0.0.1" }]]
  expect(fits(list({ isGateway: true, ipam: { type: "host-local", ranges, routes: [{ dst: "0.0.0.0/0" }] } }))).toBe(
    true,
  )
  expect(fits(list({ isGatway: true }))).toBe(false)
  expect(fits(list({ ipam: { type: "host-local", range: ranges } }))).toBe(false)
  expect(fits(list({ ipam: { type: "host-local", ranges: [[{ subnet: "10.0.0.0/24", gatway: "10.0.0.1" }]] } }))).toBe(
    false,
  )
  expect(fits(list({ args: { cni: { anything: 1 }, labels: [] } }))).toBe(true)
})

test("editors get descriptions and defaults", () => {
  expect(schemaOf("bridge")).toMatchObject({
    properties: {
      bridge: { default: "cni0", description: "the bridge; created if it does not exist, and never removed" },
      hairpinMode: { type: ["boolean", "null"], default: false },
    },
  })
  expect(schemaOf("no-plugin")).toBeUndefined()
})
