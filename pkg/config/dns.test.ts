import { expect, test } from "bun:test"
import { ownDns } from "./dns.ts"

test("without any member DNS is the IPAM plugin's business", () => {
  expect(ownDns()).toBeUndefined()
  expect(ownDns({}, {})).toBeUndefined()
  expect(ownDns({ nameservers: undefined, domain: "" })).toBeUndefined()
})

test("any member replaces the IPAM plugin's, and an empty list takes it away", () => {
  expect(ownDns({ domain: "a.example" }, { domain: "a.example" })).toEqual({ domain: "a.example" })
  for (const list of ["nameservers", "search", "options"]) expect(ownDns({ [list]: [] }, {})).toEqual({})
})
