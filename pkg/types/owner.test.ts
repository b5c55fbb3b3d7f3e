import { expect, test } from "bun:test"
import fc from "fast-check"
import { isOwnerOf, ownerComment, staleOf } from "./owner.ts"

test("an owner reads as network, container and interface", () => {
  expect(ownerComment({ network: "lab", containerId: "c1", ifName: "eth0" })).toBe("lab/c1/eth0")
})

test("the longest names fit into the 127 bytes of an nf_tables comment, and stay apart [S9]", () => {
  const long = (end: string) => ({
    network: `${"n".repeat(200)}${end}`,
    containerId: "c".repeat(300),
    ifName: "i".repeat(15),
  })
  const [a, b] = [ownerComment(long("1")), ownerComment(long("2"))]
  expect(a.length).toBeLessThanOrEqual(127)
  expect(a).not.toBe(b)
  expect(a).toBe(ownerComment(long("1")))
})

test("a container ID of 64 hex digits is not cut", () => {
  const containerId = "0123456789abcdef".repeat(4)
  expect(ownerComment({ network: "lab", containerId, ifName: "eth0" })).toContain(containerId)
})

test("a comment belongs to its own network only, also when one name begins with the other", () => {
  const comment = ownerComment({ network: "lab-2", containerId: "c1", ifName: "eth0" })
  expect(isOwnerOf(comment, "lab-2")).toBe(true)
  expect(isOwnerOf(comment, "lab")).toBe(false)
  expect(isOwnerOf("lab-2", "lab-2")).toBe(false)
  expect(isOwnerOf("lab-2/some/other/text", "lab-2")).toBe(false)
})

test("an interface name that nft would have to escape becomes a hash [S7]", () => {
  const comment = ownerComment({ network: "lab", containerId: "c1", ifName: 'a"b\\' })
  expect(comment).toMatch(/^lab\/c1\/~[0-9a-f]{16}$/)
})

test("stale is what names an owner in the network who is not valid, and no other text", () => {
  const valid = { network: "lab", containerId: "c1", ifName: "eth0" }
  const isStale = staleOf("lab", [valid])
  expect(isStale(ownerComment(valid))).toBe(false)
  expect(isStale(ownerComment({ ...valid, ifName: "net1" }))).toBe(true)
  expect(isStale(ownerComment({ ...valid, network: "lab-2" }))).toBe(false)
  expect(isStale("lab/c2")).toBe(false)
})

test("no two owners have one comment: names may hold what joins them, or what a hash looks like, and be of any length [S8]", () => {
  const letters = (...all: string[]) => fc.string({ unit: fc.constantFrom(...all), minLength: 1, maxLength: 4 })
  const name = fc.oneof(
    letters("a", ".", "-", "_").map((text) => `a${text}`),
    letters("a", "b").map((text) => `${"n".repeat(70)}${text}`),
  )
  const ifName = letters("a", "~", '"', "\\", "'", "é", "-", "0")
  const owner = fc.record({ network: name, containerId: name, ifName })
  const seen = new Map<string, string>()
  fc.assert(
    fc.property(owner, (one) => {
      const comment = ownerComment(one)
      const names = JSON.stringify(one)
      expect(seen.get(comment) ?? names).toBe(names)
      seen.set(comment, names)
      expect(comment).toMatch(/^[\w.@~-]+\/[\w.@~-]+\/[\w.@~-]+$/)
      expect(comment.length).toBeLessThanOrEqual(127)
    }),
    { numRuns: 3_000 },
  )
})
