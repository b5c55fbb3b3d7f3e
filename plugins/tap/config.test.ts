import { describe, expect, test } from "bun:test"
import type { Verb } from "../../pkg/skel/mod.ts"
import type { JsonObject } from "../../pkg/types/mod.ts"
import { refusalOf } from "../../pkg/types/testing.ts"
import { parseTapConfig } from "./config.ts"

function parse(raw: JsonObject, verb: Verb = "ADD", args = "") {
  return parseTapConfig({ cniVersion: "1.1.0", name: "n", type: "tap" }, { verb, args, raw })
}

const nothing = {
  multiQueue: false,
  vnetHdr: false,
  mtu: undefined,
  mac: undefined,
  selinuxContext: undefined,
  bridge: undefined,
  dns: undefined,
  ipam: undefined,
}

test("nothing is needed; empty texts and an MTU of 0 are nothing, root as owner is not", () => {
  expect(parse({})).toMatchObject(nothing)
  expect([parse({}).owner, parse({}).group]).toEqual([undefined, undefined])
  expect(parse({ bridge: "", selinuxContext: "", mtu: 0, mac: null })).toEqual(parse({}))
  expect(parse({ owner: 0, group: 0 })).toMatchObject({ owner: 0, group: 0 })
})

test("everything is read, in any case of its key", () => {
  const raw = {
    MultiQueue: true,
    vnethdr: true,
    mtu: 65521,
    mac: "0A-00-00-00-00-01",
    Owner: 1000,
    group: 4294967294,
    SELinuxContext: "system_u:system_r:container_t:s0",
    bridge: "br0",
  }
  expect(parse(raw)).toMatchObject({
    ...nothing,
    multiQueue: true,
    vnetHdr: true,
    mtu: 65521,
    mac: "0a:00:00:00:00:01",
    owner: 1000,
    group: 4294967294,
    selinuxContext: "system_u:system_r:container_t:s0",
    bridge: "br0",
  })
})

test("the MAC is runtimeConfig's before CNI_ARGS' before the network's", () => {
  const mac = "0a:00:00:00:00:01"
  expect(parse({ mac, runtimeConfig: { mac: "0a:00:00:00:00:03" } }, "ADD", "MAC=0a:00:00:00:00:02").mac).toEndWith("3")
  expect(parse({ mac }, "ADD", "MAC=0a:00:00:00:00:02").mac).toEndWith("2")
  expect(parse({ mac }).mac).toBe(mac)
})

describe("refused is", () => {
  test.each([
    ["mtu", { mtu: 65522 }],
    ["mtu", { mtu: 67 }],
    ["mtu", { mtu: -1 }],
    ["owner", { owner: -1 }],
    ["owner", { owner: 4294967295 }],
    ["group", { group: "wheel" }],
    ["multiQueue", { multiQueue: 1 }],
    ["vnetHdr", { vnetHdr: "on" }],
    ["bridge", { bridge: "a/b" }],
    ["selinuxContext", { selinuxContext: 5 }],
    ["runtimeConfig.mac", { runtimeConfig: { mac: "zz" } }],
  ])("%s in %j", (key, raw) => {
    const refused = refusalOf(() => parse(raw))
    expect(refused).toMatchObject({ code: 7, message: expect.stringContaining(`Cannot use "${key}"`) })
  })

  test("a SELinux context that is not a string, by what it had to be", () => {
    expect(refusalOf(() => parse({ selinuxContext: 5 })).message).toEndWith("expected a SELinux context, found 5")
  })

  test("a key of CNI_ARGS that it does not know, as with upstream", () => {
    expect(refusalOf(() => parse({}, "ADD", "mac=0a:00:00:00:00:02")).code).toBe(4)
  })
})

test("for DEL and GC what is wrong counts as absent", () => {
  const wrong = { owner: -1, mtu: 5, multiQueue: "?", bridge: "a/b", selinuxContext: [], mac: 7 }
  for (const verb of ["DEL", "GC"] as const) expect(parse(wrong, verb, "=")).toEqual(parse({}))
})
