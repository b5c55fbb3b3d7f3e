import { expect, test } from "bun:test"
import { stringifyJson } from "../types/mod.ts"
import { parseNetworkList } from "./parse.ts"
import { deriveRequest, inject } from "./request.ts"
import { networkOf } from "./testing/lab.ts"

const derive = (plugin: { type: string; [key: string]: unknown }, given: Parameters<typeof deriveRequest>[2]) => {
  const network = networkOf([JSON.parse(JSON.stringify(plugin))])
  const [first] = network.plugins
  if (first === undefined) throw new Error("no plugin")
  return deriveRequest(network, first, given)
}

test("#187 unknown keys stay in the request as they are, down to the digits", () => {
  const text = '{"type":"x","big":12345678901234567890,"one":1.0,"Odd":{"deep":[null,"<&>"]},"args":{"cni":{}}}'
  const network = parseNetworkList(new TextEncoder().encode(`{"cniVersion":"1.1.0","name":"lab","plugins":[${text}]}`))
  const [plugin] = network.plugins
  if (plugin === undefined) throw new Error("no plugin")
  const request = stringifyJson(deriveRequest(network, plugin, { capabilityArgs: {}, prevResult: {} }))
  expect(request).toContain('"big":12345678901234567890')
  expect(JSON.parse(request)).toEqual({
    type: "x",
    big: Number("12345678901234567890"),
    one: 1,
    Odd: { deep: [null, "<&>"] },
    args: { cni: {} },
    name: "lab",
    cniVersion: "1.1.0",
    prevResult: {},
  })
})

test("#188 of a key injected twice the last value wins, in any letter case of the first", () => {
  const injected = inject({ a: 1, KEY: 0 }, [
    ["key", 1],
    ["key", 2],
  ])
  expect(injected).toEqual({ a: 1, key: 2 })
})

test("#188 an empty key or a null value is refused", () => {
  expect(() => inject({}, [["", 1]])).toThrow("keys cannot be empty")
  for (const nothing of [null, undefined])
    expect(() => inject({}, [["k", nothing]])).toThrow(
      expect.objectContaining({ code: 7, message: "key 'k' value must not be nil" }),
    )
  expect(() => inject({}, [["", 1]])).toThrow(expect.objectContaining({ code: 7 }))
})

test("#190 name and cniVersion are the network's, also where the plugin object has its own", () => {
  expect(derive({ type: "x", name: "other", cniVersion: "0.1.0" }, {})).toEqual({
    type: "x",
    name: "lab",
    cniVersion: "1.1.0",
  })
})

test("#198 runtimeConfig holds what the plugin asked for and the runtime has", () => {
  const plugin = { type: "x", capabilities: { mac: true, ips: true, portMappings: false }, runtimeConfig: { old: 1 } }
  const request = derive(plugin, { capabilityArgs: { mac: "0a:00:00:00:00:01", portMappings: [], other: 1 } })
  expect(request.runtimeConfig).toEqual({ mac: "0a:00:00:00:00:01" })
})

test("#198 a name that every object has is not a capability of the runtime's", () => {
  const plugin = { type: "x", capabilities: { toString: true, constructor: true } }
  expect(derive(plugin, { capabilityArgs: { mac: "0a:00:00:00:00:01" } })).not.toHaveProperty("runtimeConfig")
})

test("#199 nothing in common: no runtimeConfig, and one from the file stays", () => {
  expect(derive({ type: "x", capabilities: { mac: true } }, { capabilityArgs: { ips: [] } })).not.toHaveProperty(
    "runtimeConfig",
  )
  expect(derive({ type: "x", runtimeConfig: { own: 1 } }, { capabilityArgs: {} }).runtimeConfig).toEqual({ own: 1 })
})

test("#232 capabilities are not sent with ADD, CHECK and DEL", () => {
  expect(derive({ type: "x", capabilities: { mac: true } }, { capabilityArgs: {} })).not.toHaveProperty("capabilities")
  expect(derive({ type: "x", capabilities: { mac: true } }, {})).toHaveProperty("capabilities") // STATUS
})

test("#219 GC gets the valid attachments under both keys", () => {
  const request = derive({ type: "x" }, { validAttachments: [{ containerId: "c1", ifName: "eth0" }] })
  const valid = [{ containerID: "c1", ifname: "eth0" }]
  expect(request["cni.dev/valid-attachments"]).toEqual(valid)
  expect(request["cni.dev/attachments"]).toEqual(valid)
})
