import { describe, expect, test } from "bun:test"
import type { Verb } from "../../pkg/skel/mod.ts"
import type { CniError, JsonObject } from "../../pkg/types/mod.ts"
import { refusalOf } from "../../pkg/types/testing.ts"
import { parseDummyConfig } from "./config.ts"

function parse(keys: JsonObject, verb: Verb = "ADD", args = "") {
  const raw = { ipam: { type: "host-local" }, ...keys }
  return parseDummyConfig({ cniVersion: "1.1.0", name: "n", type: "dummy" }, { verb, args, raw })
}

const refusal = (raw: JsonObject): CniError => refusalOf(() => parse(raw))

test("nothing but an IPAM plugin is needed", () => {
  expect(parse({})).toMatchObject({ mtu: undefined, mac: undefined, dns: undefined, ipam: "host-local" })
})

test("MTU and MAC are those given; 0 and nothing are the kernel's", () => {
  expect(parse({ MTU: 9000, mac: "0A-00-00-00-00-01" })).toMatchObject({ mtu: 9000, mac: "0a:00:00:00:00:01" })
  expect(parse({ mtu: 0 }).mtu).toBeUndefined()
  expect(parse({ runtimeConfig: { mac: "0a:00:00:00:00:02" }, mac: "0a:00:00:00:00:01" }).mac).toEndWith("02")
})

test("keys of CNI_ARGS that others know are no error, as with upstream", () => {
  expect(parse({}, "ADD", "K8S_POD_NAME=a;MAC=0a:00:00:00:00:03").mac).toBe("0a:00:00:00:00:03")
})

describe("refused is", () => {
  test("a network without an IPAM plugin, in upstream's words", () => {
    for (const none of [{ ipam: undefined }, { ipam: { type: "" } }]) {
      expect(refusal(none as never)).toMatchObject({
        code: 7,
        message: "dummy interface requires an IPAM configuration",
        details: 'name an IPAM plugin, such as host-local, by "ipam.type"',
      })
    }
  })

  test.each([
    ["mtu", { mtu: 67 }],
    ["mtu", { mtu: -1 }],
    ["mtu", { mtu: 65536 }],
    ["mac", { mac: "zz" }],
  ])("%s in %j", (key, raw) => {
    expect(refusal(raw)).toMatchObject({ code: 7, message: expect.stringContaining(`Cannot use "${key}"`) })
  })
})

test("for DEL and GC what is wrong or missing counts as absent", () => {
  for (const verb of ["DEL", "GC"] as const) {
    expect(parse({ mtu: 67, mac: 5, runtimeConfig: [] }, verb, "=")).toMatchObject({ mtu: undefined, mac: undefined })
  }
})
