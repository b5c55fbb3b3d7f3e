import { describe, expect, test } from "bun:test"
import { hostCidr, type Interface, type Result } from "../../pkg/types/mod.ts"
import { firewallFields } from "./config.ts"
import { hostLinkOf, printNote, readNote } from "./spec.ts"

describe("a note", () => {
  test.each([
    ["2", { count: 2, link: undefined, zone: undefined }],
    ["2 br0/veth1", { count: 2, link: { bridge: "br0", port: "veth1" }, zone: undefined }],
    ["2 br0/", { count: 2, link: { bridge: "br0", port: undefined }, zone: undefined }],
    ["2 br0/ trusted", { count: 2, link: { bridge: "br0", port: undefined }, zone: "trusted" }],
    ["2 - a zone of mine", { count: 2, link: undefined, zone: "a zone of mine" }],
  ])("%j is read as it was written", (text, note) => {
    expect(readNote(text)).toEqual(note)
    expect(printNote(note)).toBe(text)
  })

  test.each([undefined, "", "x", " "])("the count of text that is not a note, %j, is 0", (text) => {
    expect(readNote(text).count).toBe(0)
    expect(readNote(text).link).toBeUndefined()
  })
})

describe("the interfaces of the host in a result", () => {
  const linkOf = (...interfaces: Interface[]) => hostLinkOf({ interfaces } as Result)
  const inside = { name: "eth0", sandbox: "/run/netns/c1" }

  test("are bridge and port, the VLAN's interface and port, or the host's end of a pair alone", () => {
    expect(linkOf({ name: "br0" }, { name: "veth1" }, inside)).toEqual({ bridge: "br0", port: "veth1" })
    expect(linkOf({ name: "br0" }, { name: "veth1" }, inside, { name: "br0.7" })).toEqual({
      bridge: "br0.7",
      port: "veth1",
    })
    expect(linkOf({ name: "veth1" }, inside)).toEqual({ bridge: "veth1", port: undefined })
    expect(linkOf({ name: "br0" }, { name: "br01" }, inside)).toEqual({ bridge: "br0", port: "br01" })
    expect(linkOf({ name: "br0" }, { name: "veth1" })).toEqual({ bridge: "br0", port: "veth1" })
    expect(linkOf(inside)).toBeUndefined()
  })

  test("have names that the kernel would take", () => {
    expect(() => linkOf({ name: "br0" }, { name: "a/b" })).toThrow("prevResult.interfaces")
  })
})

test("an address is a network of its own length", () => {
  expect([Uint8Array.of(10, 1, 0, 2), new Uint8Array(16).with(15, 1)].map(hostCidr)).toEqual(["10.1.0.2/32", "::1/128"])
})

test("the schema's pattern takes the chains that the configuration takes", () => {
  const { check, pattern } = firewallFields.iptablesAdminChainName
  const names = ["", "CNI-ADMIN", "_a.b-1", "a".repeat(28), "a".repeat(29), "-a", "a b", "a/b", ".a", "é"]
  expect(names.map((name) => new RegExp(pattern).test(name))).toEqual(names.map((name) => check(name) !== undefined))
  expect(names.filter((name) => check(name) !== undefined)).toEqual(names.slice(0, 4))
})
