import { describe, expect, test } from "bun:test"
import { isCniError, type JsonObject, type JsonValue, parseNetworkConfig } from "./mod.ts"

const lab = (more: JsonObject = {}): JsonObject => ({ cniVersion: "1.0.0", name: "lab", type: "bridge", ...more })

function refusal(raw: JsonObject, options?: { lenient?: boolean }): { code: number; text: string } | undefined {
  try {
    parseNetworkConfig(raw, options)
  } catch (error) {
    if (isCniError(error)) return { code: error.code, text: `${error}` }
    throw error
  }
  return undefined
}

test("the known keys are read, others and capabilities are not", () => {
  const raw = lab({ ipam: { type: "host-local", subnet: "10.0.0.0/8" }, capabilities: { mac: true }, bridge: "br0" })
  expect(parseNetworkConfig(raw)).toEqual({
    cniVersion: "1.0.0",
    name: "lab",
    type: "bridge",
    ipam: { type: "host-local", subnet: "10.0.0.0/8" },
  })
})

test("keys are matched ignoring case", () => {
  expect(parseNetworkConfig({ CniVersion: "0.4.0", NAME: "lab", Ipam: { Type: "static", Addresses: [] } })).toEqual({
    cniVersion: "0.4.0",
    name: "lab",
    type: "",
    ipam: { type: "static", Addresses: [] },
  })
})

test.each([
  ["cniVersion", "0.4.0"],
  ["name", "other"],
  ["type", "ptp"],
  ["ipam", { type: "static" }],
  ["dns", { domain: "a" }],
  ["args", { cni: {} }],
  ["runtimeConfig", { mac: "0a:00:00:00:00:01" }],
  ["prevResult", { ips: [{ address: "10.0.0.2/8" }] }],
  ["cni.dev/valid-attachments", [{ containerID: "c1", ifname: "eth0" }]],
  ["cni.dev/attachments", [{ containerID: "c1", ifname: "eth0" }]],
] as [string, JsonValue][])("%s is read in any case, an exact match first, else the last one", (key, value) => {
  const { [key]: _, ...others } = lab()
  const base = key === "name" ? { ...others, type: "x" } : others
  const expected = parseNetworkConfig({ ...base, name: "lab", [key]: value })
  expect(expected).not.toEqual(parseNetworkConfig(lab()))
  const [upper, first] = [key.toUpperCase(), `${key[0]?.toUpperCase()}${key.slice(1)}`]
  const name = key === "name" ? {} : { name: "lab" }
  for (const spelled of [
    { [upper]: value },
    { [first]: value },
    { [first]: null, [upper]: value },
    { [key]: value, [upper]: null },
    { [upper]: null, [key]: value },
  ]) {
    expect(parseNetworkConfig({ ...base, ...name, ...spelled })).toEqual(expected)
  }
})

test("without a version it is 0.1.0", () => {
  for (const cniVersion of ["", null]) expect(parseNetworkConfig({ cniVersion, name: "lab" }).cniVersion).toBe("0.1.0")
  expect(parseNetworkConfig({ name: "lab" }).cniVersion).toBe("0.1.0")
})

test("#70 a missing or empty name is code 7", () => {
  for (const raw of [{}, { name: "" }, { name: null }]) {
    expect(refusal(raw)).toMatchObject({ code: 7, text: expect.stringContaining("missing network name") })
  }
})

test("#71 name te%%st is code 7", () => {
  expect(refusal({ name: "te%%st" })).toMatchObject({ code: 7, text: expect.stringContaining("te%%st") })
})

test.each([
  ["cniVersion", 1],
  ["name", 5],
  ["type", []],
  ["ipam", "host-local"],
  ["ipam", { type: 5 }],
  ["dns", { nameservers: "1.1.1.1" }],
  ["dns", { search: [5] }],
  ["runtimeConfig", []],
  ["prevResult", []],
  ["prevResult", "text"],
  ["cni.dev/valid-attachments", {}],
])("a wrong type of %s is code 6 and named: %j", (key, value) => {
  const refused = refusal(lab({ [key]: value }))
  expect(refused?.code).toBe(6)
  expect(refused?.text).toContain(`"${key}`)
  expect(refused?.text).toContain("expected")
})

test("args of any kind are no error: they may be ignored", () => {
  expect(parseNetworkConfig(lab({ args: { cni: { ips: ["10.0.0.1"] } } })).args).toEqual({ cni: { ips: ["10.0.0.1"] } })
  expect(parseNetworkConfig(lab({ args: "text" })).args).toBeUndefined()
})

describe("prevResult", () => {
  test("#12 one of another layout is refused, not guessed", () => {
    expect(refusal(lab({ prevResult: { cniVersion: "0.4.0" } }))).toMatchObject({
      code: 6,
      text: expect.stringContaining('result type supports [1.0.0 1.1.0] but unmarshalled CNIVersion is "0.4.0"'),
    })
  })

  test("#12 another label of the same layout is accepted", () => {
    const prevResult = { cniVersion: "1.1.0", ips: [{ address: "10.0.0.2/8" }] }
    expect(parseNetworkConfig(lab({ prevResult })).prevResult?.ips).toEqual([{ address: "10.0.0.2/8" }])
  })

  test("#13 without a version it is read in the configuration's", () => {
    const prevResult = { ip4: { ip: "10.0.0.2/8" } }
    expect(parseNetworkConfig({ name: "lab", prevResult }).prevResult?.ips).toEqual([{ address: "10.0.0.2/8" }])
  })

  test("#14 null and absent are none", () => {
    expect(parseNetworkConfig(lab({ prevResult: null }))).not.toHaveProperty("prevResult")
    expect(parseNetworkConfig(lab())).not.toHaveProperty("prevResult")
  })

  test("a wrong address in it is named by its place", () => {
    expect(refusal(lab({ prevResult: { ips: [{ address: "10.0.0.2" }] } }))?.text).toContain('"ips[0].address"')
  })

  test("under an unknown version it is left alone: the version is the error", () => {
    expect(parseNetworkConfig({ cniVersion: "9.0.0", name: "lab", prevResult: { ips: 5 } })).not.toHaveProperty(
      "prevResult",
    )
  })
})

describe("attachments", () => {
  const one = { containerID: "c1", ifname: "eth0" }

  test("absent is unknown; an empty list has no entry, and so has null", () => {
    expect(parseNetworkConfig(lab())).not.toHaveProperty("attachments")
    for (const list of [null, []]) {
      expect(parseNetworkConfig(lab({ "cni.dev/valid-attachments": list })).attachments).toEqual([])
      expect(parseNetworkConfig(lab({ "CNI.dev/attachments": list })).attachments).toEqual([])
    }
  })

  test("the key of the tagged 1.1.0 text counts when the newer one does not exist", () => {
    expect(parseNetworkConfig(lab({ "cni.dev/attachments": [one] })).attachments).toEqual([one])
    const both = lab({ "cni.dev/valid-attachments": [one], "cni.dev/attachments": [] })
    expect(parseNetworkConfig(both).attachments).toEqual([one])
    const nil = lab({ "cni.dev/valid-attachments": null, "cni.dev/attachments": [one] })
    expect(parseNetworkConfig(nil).attachments).toEqual([one])
  })

  test.each([[{}], [{ containerID: "c1" }], [{ containerID: "", ifname: "eth0" }]])(
    "%j is refused even where lenient: to skip it would be to delete it",
    (attachment) => {
      const raw = lab({ "cni.dev/valid-attachments": [one, attachment] })
      expect(refusal(raw, { lenient: true })).toMatchObject({
        code: 7,
        text: expect.stringContaining("valid-attachments[1]"),
      })
    },
  )
})

test("lenient, for DEL: what cannot be read counts as absent, but a network has a name", () => {
  const raw = lab({ ipam: "x", dns: 5, runtimeConfig: [], prevResult: { ips: [{ address: "nonsense" }] } })
  expect(parseNetworkConfig(raw, { lenient: true })).toEqual({ cniVersion: "1.0.0", name: "lab", type: "bridge" })
  expect(refusal({ type: "bridge" }, { lenient: true })?.code).toBe(7)
})
