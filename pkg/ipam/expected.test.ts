import { expect, test } from "bun:test"
import type { JsonObject } from "../types/mod.ts"
import { expectedIps } from "./mod.ts"

const of = (ipam: JsonObject) => expectedIps({ ipam })

test("host-local's ranges have their first address for gateway, unless they say another", () => {
  const ranges = [
    [{ subnet: "10.22.0.0/16" }, { subnet: "10.23.0.0/16", gateway: "10.23.9.9" }],
    [{ subnet: "fd00::/64" }],
  ]
  expect(of({ type: "host-local", ranges, subnet: "10.1.0.0/24" })).toEqual([
    [{ address: "10.1.0.0/24", gateway: "10.1.0.1" }],
    [
      { address: "10.22.0.0/16", gateway: "10.22.0.1" },
      { address: "10.23.0.0/16", gateway: "10.23.9.9" },
    ],
    [{ address: "fd00::/64", gateway: "fd00::1" }],
  ])
})

test("static's addresses are all given, and have a gateway only when they say so", () => {
  const addresses = [{ address: "10.1.0.5/24" }, { address: "fd00::5/64", gateway: "fd00::1" }]
  expect(of({ type: "static", addresses })).toEqual([
    [{ address: "10.1.0.5/24" }],
    [{ address: "fd00::5/64", gateway: "fd00::1" }],
  ])
})

test("what another plugin gives, and what cannot be read, is not known", () => {
  expect(expectedIps({})).toEqual([])
  for (const ipam of [
    { type: "dhcp", subnet: "10.1.0.0/24" },
    { type: "host-local", ranges: [[{ subnet: "10.1.0.0" }], "none", null, [5]] },
    { type: "host-local", ranges: "all", subnet: 5 },
    { type: "static", addresses: { address: "10.1.0.5/24" } },
  ]) {
    expect(of(ipam)).toEqual([])
  }
})
