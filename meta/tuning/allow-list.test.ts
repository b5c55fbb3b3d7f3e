import { afterAll, expect, test } from "bun:test"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { compilePattern, refuseForbidden } from "./allow-list.ts"

const directory = mkdtempSync(join(tmpdir(), "tuning-allow-list-"))
afterAll(() => rmSync(directory, { recursive: true }))

function listOf(text: string): string {
  const path = join(directory, crypto.randomUUID())
  writeFileSync(path, text)
  return path
}

function sysctls(...keys: string[]) {
  return keys.map((key) => ({ key, value: "1", from: "sysctl" as const }))
}

test("without a list everything is allowed", () => {
  expect(() => refuseForbidden(sysctls("net.ipv4.ip_forward"), join(directory, "none"))).not.toThrow()
})

test("with a list every sysctl has to match a line, as it is written", () => {
  const list = listOf("^net\\.core\\.\n\n  ^net\\.ipv4\\.conf\\.IFNAME\\.[a-z_]*$  \r\n")
  expect(() => refuseForbidden(sysctls("net.core.somaxconn", "net.ipv4.conf.IFNAME.rp_filter"), list)).not.toThrow()
  expect(() => refuseForbidden(sysctls("net.core.somaxconn", "net/ipv4/conf/IFNAME/rp_filter"), list)).toThrow(
    "Sysctl net/ipv4/conf/IFNAME/rp_filter is not allowed. Only the following sysctls are allowed: " +
      "[^net\\.core\\. ^net\\.ipv4\\.conf\\.IFNAME\\.[a-z_]*$]",
  )
})

test("a list without lines allows nothing, and is not asked when there is nothing to allow", () => {
  const list = listOf("\n \n")
  expect(() => refuseForbidden(sysctls("net.ipv4.ip_forward"), list)).toThrow("allowed: []")
  expect(() => refuseForbidden([], list)).not.toThrow()
})

test("a pattern may match anywhere in the key, as for upstream", () => {
  expect(() => refuseForbidden(sysctls("net.ipv4.tcp_rmem"), listOf("tcp"))).not.toThrow()
})

test("a list that cannot be used is an error, and allows nothing", () => {
  expect(() => refuseForbidden(sysctls("net.a"), listOf("net\n("))).toThrow('"(" is no regular expression')
  expect(() => refuseForbidden(sysctls("net.a"), directory)).toThrow(`Cannot read the allow list "${directory}"`)
})

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

const [letters, capitals, digits] = ["abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "0123456789"]
const signs = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
const control = String.fromCharCode(...Array.from({ length: 32 }, (_, code) => code), 127)

// https://golang.org/s/re2syntax, "ASCII character classes"
test.each([
  ["alnum", digits + capitals + letters],
  ["alpha", capitals + letters],
  ["ascii", `${control} ${signs}${digits}${capitals}${letters}`],
  ["blank", "\t "],
  ["cntrl", control],
  ["digit", digits],
  ["graph", signs + digits + capitals + letters],
  ["lower", letters],
  ["print", ` ${signs}${digits}${capitals}${letters}`],
  ["punct", signs],
  ["space", "\t\n\v\f\r "],
  ["upper", capitals],
  ["word", `${digits}${capitals}${letters}_`],
  ["xdigit", `${digits}ABCDEFabcdef`],
])("[:%s:] has the characters that it has in RE2", (name, expected) => {
  const characters = [...Array.from({ length: 128 }, (_, code) => String.fromCharCode(code)), "é", "ſ", "\u00a0", "😀"]
  for (const [pattern, more] of [
    [`^[[:${name}:]]$`, ""],
    [`^[[:${name}:]é]$`, "é"],
  ] as const) {
    const compiled = compilePattern(pattern)
    const matched = characters.filter((character) => compiled.test(character)).sort()
    expect(matched).toEqual([...(expected + more)].sort())
  }
  const others = compilePattern(`^[^[:${name}:]]$`)
  expect(characters.filter((character) => !others.test(character)).sort()).toEqual([...expected].sort())
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
  "[[:^alpha:]]", // means something in RE2: refused, not misread
  "[:alpha:]",
])("%s is refused, as in RE2", (pattern) => {
  expect(() => compilePattern(pattern)).toThrow(SyntaxError)
})

test("a refusal says what cannot be used", () => {
  expect(() => compilePattern("[:alpha:]")).toThrow("cannot use [:alpha:] outside of a class")
  expect(() => compilePattern("[[:no:]]")).toThrow("cannot use [:no:]")
  expect(() => compilePattern("(?=a)")).toThrow("cannot use (? without a meaning in RE2")
  expect(() => compilePattern(String.raw`\h`)).toThrow(String.raw`cannot use \h`)
  expect(() => compilePattern(String.raw`\x{}`)).toThrow(String.raw`cannot use \x`)
})

test("a bracket within a class is one of its characters", () => {
  const matching = (pattern: string) =>
    [..."[]^xymut"].filter((character) => compilePattern(pattern).test(character)).join("")
  expect(matching("^[x[y]$")).toBe("[xy")
  expect(matching("^[x[]y]$")).toBe("")
  expect(matching("^[x[^y]$")).toBe("[^xy")
})
