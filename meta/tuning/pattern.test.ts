import { expect, test } from "bun:test"
import { compilePattern } from "./pattern.ts"

// The meaning of each pattern is that of Go's regexp package: https://golang.org/s/re2syntax
test.each([
  [String.raw`^net\.ipv4\.conf\.other\.[a-z_]*$`, ["net.ipv4.conf.other.x_y"], ["net.ipv4.conf.all.log_martians"]],
  ["net.ipv4", ["net.ipv4.x", "net/ipv4/x"], ["net.ipv6.x"]],
  [String.raw`\Anet\z`, ["net"], ["net.x", "x.net", "Anetz"]],
  [String.raw`\Qnet.*\E$`, ["net.*"], ["net.x", "netxx"]],
  [String.raw`\Qnet.`, ["net.x"], ["netxx"]],
  [String.raw`^net\-\_\/x`, ["net-_/x"], ["net.x"]],
  ["^[[:alpha:]]+[[:digit:]_]$", ["abc5", "abc_"], ["abc", "5", "abc:5"]],
  ["^[]a]$", ["]", "a"], ["b"]],
  ["^[^]a]$", ["b"], ["]", "a"]],
  ["^[a[]$", ["a", "["], ["]"]],
  ["^a{2}b{1,}$", ["aab", "aabb"], ["ab", "aa"]],
  ["^a{x}$", ["a{x}"], ["a"]],
  ["^(?P<first>a|b)(?:c)$", ["ac", "bc"], ["c"]],
  ["(?i)^NET$", ["net", "Net"], ["nett"]],
  [String.raw`^\x41\x{42}\pL$`, ["ABc"], ["AB1"]],
  [String.raw`^\w+\.\d$`, ["net.1"], ["net.x", "net 1"]],
  ["^net.ipv4|^net.core", ["net.ipv4.x", "net.core.x"], ["x.net.core"]],
  ["]", ["a]"], ["a"]],
])("%s", (pattern, matching, others) => {
  const compiled = compilePattern(pattern)
  expect(matching.filter((key) => !compiled.test(key))).toEqual([])
  expect(others.filter((key) => compiled.test(key))).toEqual([])
})

test.each([
  "(",
  "[a",
  "*",
  String.raw`\1`,
  String.raw`(a)\1`,
  "(?=a)",
  "(?!a)",
  "(?<=a)",
  String.raw`\h`,
  "a**",
  "[[:no:]]",
])("%s is refused, as in RE2", (pattern) => {
  expect(() => compilePattern(pattern)).toThrow(SyntaxError)
})
