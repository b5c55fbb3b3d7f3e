import { expect, test } from "bun:test"
import type { Verb } from "../../pkg/skel/mod.ts"
import { type JsonObject, parseNetworkConfig } from "../../pkg/types/mod.ts"
import { refusalOf } from "../../pkg/types/testing.ts"
import { parseVlanConfig } from "./config.ts"

function parse(keys: JsonObject, verb: Verb = "ADD") {
  const raw = { cniVersion: "1.1.0", name: "lan", type: "vlan", master: "eth1", ipam: { type: "static" }, ...keys }
  return parseVlanConfig(parseNetworkConfig(raw, { lenient: verb === "DEL" }), { args: "", verb, raw })
}

const defaults = { linkInContainer: false, vlanId: 0, protocol: "802.1q", mtu: undefined, mac: undefined } as const

test("master and IPAM plugin have to be there", () => {
  expect(parse({})).toMatchObject({ ...defaults, master: "eth1", ipam: "static", dns: undefined })
  expect(refusalOf(() => parse({ master: "" }))).toMatchObject({
    code: 7,
    message: 'Cannot use network "lan" with vlan: no "master"',
  })
  expect(refusalOf(() => parse({ ipam: {} }))).toMatchObject({
    code: 7,
    message: 'Cannot use network "lan" with vlan: no "ipam.type"',
  })
  expect(parse({ master: null, ipam: null }, "DEL")).toMatchObject({ master: undefined, ipam: undefined })
})

test("every key, in any case", () => {
  const keys = { VLANID: 4094, Protocol: "802.1AD", mtu: 1400, linkincontainer: true }
  expect(parse(keys)).toMatchObject({ vlanId: 4094, protocol: "802.1ad", mtu: 1400, linkInContainer: true })
  expect(parse({ mtu: 0 }).mtu).toBeUndefined()
  expect(parse({ protocol: "802.1Q" }).protocol).toBe("802.1q")
})

test.each([
  [{ vlanId: 4095 }, 'Cannot use "vlanId": expected a whole number from 0 to 4094, found 4095'],
  [{ vlanId: -1 }, 'Cannot use "vlanId"'],
  [{ vlanId: "5" }, 'Cannot use "vlanId"'],
  [{ protocol: "802.1s" }, 'Cannot use "protocol": expected "802.1Q" or "802.1ad", found "802.1s"'],
  [{ mtu: 60 }, 'Cannot use "mtu"'],
])("%j is code 7, and for DEL absent", (keys, message) => {
  expect(refusalOf(() => parse(keys))).toMatchObject({ code: 7, message: expect.stringContaining(message) })
  expect(parse(keys, "DEL")).toMatchObject(defaults)
})
