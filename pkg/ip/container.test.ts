import { expect, test } from "bun:test"
import { refusalOf } from "../types/testing.ts"
import { requireMtu } from "./container.ts"

const both = { ips: [{ address: "10.1.0.5/24" }, { address: "fd00::5/64" }, { address: "fd00::6/64" }] }

test("below 1280 bytes an interface has no IPv6, RFC 8200: the first such address is named", () => {
  expect(refusalOf(() => requireMtu(1279, both))).toMatchObject({
    code: 7,
    message: 'Cannot use "mtu" 1279 with fd00::5/64',
    details: "IPv6 needs an MTU of 1280 or more",
  })
})

test.each([
  [1280, both],
  [undefined, both],
  [68, { ips: [{ address: "10.1.0.5/24" }] }],
  [68, { ips: [] }],
])("an MTU of %p does for %j", (mtu, result) => {
  expect(() => requireMtu(mtu, result)).not.toThrow()
})
