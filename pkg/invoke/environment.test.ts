import { describe, expect, test } from "bun:test"
import { formatCniArgs, pluginEnvironment } from "./environment.ts"

const variables = { command: "GC", containerId: "", netns: "", ifName: "", args: "", path: "/opt/cni/bin" }
const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

describe("the environment of a plugin", () => {
  test("#141 is the own one, in which the six CNI_* variables that are given take the place of those there", () => {
    const own = { HOME: "/root", CNI_COMMAND: "ADD", CNI_IFNAME: "eth9", CNI_NETNS_OVERRIDE: "1" }
    expect(pluginEnvironment(own, variables)).toEqual({
      HOME: "/root",
      CNI_NETNS_OVERRIDE: "1",
      CNI_COMMAND: "GC",
      CNI_CONTAINERID: "",
      CNI_NETNS: "",
      CNI_IFNAME: "",
      CNI_ARGS: "",
      CNI_PATH: "/opt/cni/bin",
    })
  })

  test("#161 has the trace context, in place of all of an inherited one", () => {
    const inherited = { TRACEPARENT: "old", TRACESTATE: "old=1", BAGGAGE: "old=1" }
    const env = pluginEnvironment(inherited, variables, { traceparent, tracestate: "a=1", baggage: "" })
    expect(env).toMatchObject({ TRACEPARENT: traceparent, TRACESTATE: "a=1" })
    expect(env.BAGGAGE).toBeUndefined()
    expect(pluginEnvironment(inherited, variables, { traceparent }).TRACESTATE).toBeUndefined()
  })

  test("#161 has an inherited trace context as it is without a valid one to put in its place", () => {
    const inherited = { TRACEPARENT: "old", TRACESTATE: "old=1", BAGGAGE: "old=1" }
    expect(pluginEnvironment(inherited, variables)).toMatchObject(inherited)
    expect(pluginEnvironment(inherited, variables, { traceparent: "" })).toMatchObject(inherited)
  })

  test.each([
    traceparent,
    traceparent.replace(/^00/, "01"),
    traceparent.replace(/^00/, "fe"),
    traceparent.replace(/01$/, "ff"),
    traceparent.replace(/-[^-]+-/, `-${"0".repeat(31)}1-`),
    traceparent.replace("b7ad6b7169203331", `1${"0".repeat(15)}`),
  ])("#161 is given a valid span: %s", (valid) => {
    expect(pluginEnvironment({}, variables, { traceparent: valid, baggage: "a=1" })).toMatchObject({
      TRACEPARENT: valid,
      BAGGAGE: "a=1",
    })
  })

  // https://www.w3.org/TR/trace-context/#traceparent-header-field-values: version ff and IDs of zeros are forbidden.
  test.each([
    "",
    "00-0-0-0",
    traceparent.replace(/-[^-]+-/, `-${"0".repeat(32)}-`),
    traceparent.replace("b7ad6b7169203331", "0".repeat(16)),
    traceparent.replace(/^00/, "ff"),
    traceparent.replace("0af765", "0AF765"),
    ` ${traceparent}`,
    `0${traceparent}`,
    `${traceparent}0`,
    `${traceparent}-more`,
    `${traceparent}\n`,
    traceparent.slice(1),
    traceparent.slice(0, -1),
    traceparent.replace("8448", "844"),
    traceparent.replace("8448", "84480"),
    traceparent.replace("7169", "716"),
    traceparent.replace("7169", "71690"),
    traceparent.replace("7169", "716g"),
  ])("#161 is given none without a valid span, as in %j, baggage or not", (invalid) => {
    const env = pluginEnvironment({}, variables, { traceparent: invalid, baggage: "a=1" })
    expect(Object.keys(env).filter((name) => !name.startsWith("CNI_"))).toBeEmpty()
  })
})

describe("CNI_ARGS", () => {
  test("#142 is pairs with a semicolon between them", () => {
    expect(
      formatCniArgs([
        ["KEY1", "VALUE1"],
        ["KEY2", ""],
      ]),
    ).toBe("KEY1=VALUE1;KEY2=")
    expect(formatCniArgs([])).toBe("")
  })

  test.each([
    ["A;B", "c"],
    ["A", "b=c"],
    ["A", "b;c"],
    ["A", "b\0c"],
    ["A=", "b"],
    ["", "b"],
  ])("cannot hold %j=%j", (key, value) => {
    const refused = `Cannot pass ${JSON.stringify(`${key}=${value}`)} in CNI_ARGS: neither key nor value can hold ";" or "="`
    expect(() => formatCniArgs([[key, value]])).toThrow(expect.objectContaining({ code: 4, message: refused }))
  })
})
