import { describe, expect, test } from "bun:test"
import { formatCniArgs, pluginEnvironment } from "./environment.ts"

const variables = { command: "GC", containerId: "", netns: "", ifName: "", args: "", path: "/opt/cni/bin" }
const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

describe("the environment of a plugin", () => {
  test("#141 is the own one, in which the given CNI_* variables take the place of others", () => {
    expect(pluginEnvironment({ HOME: "/root", CNI_COMMAND: "ADD", CNI_IFNAME: "eth9" }, variables)).toEqual({
      HOME: "/root",
      CNI_COMMAND: "GC",
      CNI_CONTAINERID: "",
      CNI_NETNS: "",
      CNI_IFNAME: "",
      CNI_ARGS: "",
      CNI_PATH: "/opt/cni/bin",
    })
  })

  test("#161 has the trace context, in place of an inherited one", () => {
    const env = pluginEnvironment({ TRACEPARENT: "old" }, variables, { traceparent, tracestate: "a=1", baggage: "" })
    expect(env).toMatchObject({ TRACEPARENT: traceparent, TRACESTATE: "a=1" })
    expect(env).not.toHaveProperty("BAGGAGE")
  })

  test.each(["", "00-0-0-0", traceparent.replace(/-[^-]+-/, `-${"0".repeat(32)}-`)])(
    "#161 has none without a valid span, as in %j, baggage or not",
    (invalid) => {
      const env = pluginEnvironment({}, variables, { traceparent: invalid, baggage: "a=1" })
      expect(Object.keys(env).filter((name) => !name.startsWith("CNI_"))).toBeEmpty()
    },
  )
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
    ["", "b"],
  ])("cannot hold %j=%j", (key, value) => {
    expect(() => formatCniArgs([[key, value]])).toThrow("in CNI_ARGS")
  })
})
