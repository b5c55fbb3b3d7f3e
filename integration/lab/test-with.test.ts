import { expect, test } from "bun:test"
import { leftOutLine, leftOutTests, titlesWith, titleWith } from "./test-with.ts"

test("what is left out is printed and read back, among other output, with a serial line's ends of line", () => {
  const one = { title: titleWith("two VLANs are two networks", ["vlan_filtering"]), missing: ["vlan_filtering"] }
  const two = { title: titleWith("a (needs b), c; d", ["vlan", "vrf"]), missing: ["vlan", "vrf"] }
  expect(leftOutLine(one)).toBe(
    "not on this kernel: two VLANs are two networks (needs vlan_filtering); missing: vlan_filtering",
  )
  expect(leftOutTests(`bun test\n${leftOutLine(one)}\r\nnot on this day\n${leftOutLine(two)}\n`)).toEqual([one, two])
})

test.each([
  [["vlan"], true],
  [["vrf", "vlan", "tap"], true],
  [["vlan_filtering"], false], // another feature whose name begins with the same letters
  [["vrf"], false],
])("the pattern for vlan and dummy, and a test that needs %p: %p", (needs, isSelected) => {
  expect(new RegExp(titlesWith(["vlan", "dummy"])).test(titleWith("a test", needs))).toBe(isSelected)
})
