import { expect, test } from "bun:test"
import fc from "fast-check"
import { Matcher } from "./matcher.ts"

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
  ["^(a|b|)c$", ["ac", "bc", "c"], ["abc", "a"]],
  ["^(?:(?:a|b)*c)+$", ["c", "abbac", "cc", "acbc"], ["", "ab", "acb"]],
  ["^(a*)*$", ["", "aa"], ["b"]],
  ["^a{2,3}$", ["aa", "aaa"], ["a", "aaaa"]],
  ["^a{0}b{,2}$", ["b{,2}"], ["ab", "bb"]],
  ["^a+?b*?c??$", ["a", "aabbc"], ["b", "acc"]],
  ["^*a", ["a", "ba"], ["b"]],
  ["^[[:^alpha:]x]$", ["x", "1", "é"], ["a", "X"]],
  [String.raw`^[\d-z]$`, ["7", "-", "z"], ["y"]],
  [String.raw`^[\D]\S\W$`, ["a\v.", "\va-"], ["1a.", "a .", "aab"]],
  [String.raw`^\s$`, [" ", "\t", "\f"], ["\v", "\u00a0"]],
  [String.raw`\bconf\b`, ["net.conf.x", "conf"], ["net.confx", "xconf"]],
  [String.raw`\Bconf`, ["xconf"], ["net.conf"]],
  [String.raw`^\052\x2a\x{2A}\a$`, ["***\x07"], ["***"]],
  [String.raw`^\p{Greek}\p{^Greek}\P{Lu}$`, ["αaa"], ["aaa", "ααa", "αaA"]],
  ["a(?i)b(c)", ["abc", "aBC"], ["ABC"]],
  ["^(?:(?i)a)b(?i:c)$", ["Abc", "abC"], ["aBc"]],
  ["^(?i:a(?-i:b)[c-d])$", ["AbD"], ["ABD"]],
  ["(?i)^[^k]$", ["j"], ["k", "K", "\u212a"]],
  ["^a.b$", ["a\rb", "a\u2028b", "a😀b"], ["a\nb", "ab"]],
  ["(?s)^a.b$", ["a\nb"], []],
  ["^b$", ["b"], ["a\nb", "b\n"]],
  ["(?m)^b$", ["a\nb\nc"], ["a\rb"]],
  [String.raw`(?m)\Ab\z`, ["b"], ["b\nc", "a\nb"]],
  ["(?U)^a+$", ["aa"], ["b"]],
])("%s", (pattern, matching, others) => {
  const compiled = new Matcher(pattern)
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
    const compiled = new Matcher(pattern)
    const matched = characters.filter((character) => compiled.test(character)).sort()
    expect(matched).toEqual([...(expected + more)].sort())
  }
  const others = new Matcher(`^[^[:${name}:]]$`)
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
  "a*+",
  "a{2}{3}",
  "a{1001}",
  "a{2,1}",
  "(a{1000}){1000}",
  "((((((){1000}){1000}){1000}){1000}){1000}){1000}",
  "+a",
  "a|*",
  "({2})",
  ")",
  "(?<n>a)(?<n>b)",
  "(?i",
  "[b-a]",
  String.raw`[a-\d]`,
  "\\",
  String.raw`\x{110000}`,
  String.raw`\p{Klingon}`,
  `${"(".repeat(200)}${")".repeat(200)}`,
  "[[:no:]]",
  "[:alpha:]",
])("%s is refused, as in RE2", (pattern) => {
  expect(() => new Matcher(pattern)).toThrow(SyntaxError)
})

test("a refusal says what cannot be used", () => {
  expect(() => new Matcher("[:alpha:]")).toThrow("a class like [:alpha:] needs another pair of brackets: [[:alpha:]]")
  for (const name of ["no", "constructor", "__proto__"])
    expect(() => new Matcher(`[[:${name}:]]`)).toThrow(`cannot use [:${name}:]`)
  expect(() => new Matcher("(?=a)")).toThrow("RE2 does not define this kind of group: (?")
  expect(() => new Matcher(String.raw`\h`)).toThrow(String.raw`cannot use \h`)
  expect(() => new Matcher(String.raw`\x{}`)).toThrow(String.raw`cannot use \x`)
})

test("a bracket within a class is one of its characters", () => {
  const matching = (pattern: string) =>
    [..."[]^xymut"].filter((character) => new Matcher(pattern).test(character)).join("")
  expect(matching("^[x[y]$")).toBe("[xy")
  expect(matching("^[x[]y]$")).toBe("")
  expect(matching("^[x[^y]$")).toBe("[^xy")
})

test.each([
  ["^([a-z]+[0-9]*)+$", `${"a".repeat(30)}.`],
  ["^(a|a)*$", `${"a".repeat(4000)}b`],
  ["^(a|aa)+$", `${"a".repeat(4000)}b`],
  ["^((a*)*)*$", `${"a".repeat(4000)}b`],
  ["^(.*a){20}$", "b".repeat(4000)],
  ["(x+x+)+y", "x".repeat(4000)],
  [`^${"a?".repeat(100)}${"a".repeat(100)}$`, "a".repeat(99)],
])("%s takes no longer with the length of a text than it must [S16]", (pattern, text) => {
  const before = process.cpuUsage()
  expect(new Matcher(pattern).test(text)).toBe(false)
  const { user, system } = process.cpuUsage(before)
  expect((user + system) / 1e6).toBeLessThan(2)
})

/** Generates patterns that mean the same in RE2 and in JavaScript, from parts that may match the same characters. */
const patterns = fc.letrec<{ piece: string; pattern: string }>((tie) => ({
  piece: fc.oneof(
    { depthSize: "small", withCrossShrink: true },
    fc.constantFrom(
      "a",
      "b",
      "1",
      ".",
      "_",
      String.raw`\.`,
      String.raw`\d`,
      String.raw`\w`,
      String.raw`\W`,
      "[ab]",
      "[^a1]",
      "[a-b_]",
    ),
    fc.constantFrom("(?:)", "(?:a|)", "(?:ab|a)", "[0-9.]"),
    tie("pattern").map((inside) => `(${inside})`),
    fc
      .tuple(tie("piece"), fc.constantFrom("*", "+", "?", "{2}", "{0,2}", "{1,}", "*?", "+?"))
      .map(([one, count]) => `(?:${one})${count}`),
  ),
  pattern: fc
    .array(
      fc.oneof(
        { weight: 5, arbitrary: tie("piece") },
        { weight: 1, arbitrary: fc.constantFrom("^", "$", "|", String.raw`\b`, String.raw`\B`) },
      ),
      {
        maxLength: 5,
      },
    )
    .map((pieces) => pieces.join("")),
})).pattern

test("says of patterns and texts by chance what JavaScript says", () => {
  const text = fc.string({ unit: fc.constantFrom("a", "b", "1", ".", "_", "\n"), maxLength: 8 })
  fc.assert(
    fc.property(
      patterns,
      fc.array(text, { minLength: 1, maxLength: 8 }),
      fc.constantFrom("", "i", "s"),
      (pattern, texts, flag) => {
        const expected = new RegExp(pattern, `u${flag}`)
        const found = new Matcher(flag ? `(?${flag})${pattern}` : pattern)
        expect(texts.map((one) => found.test(one))).toEqual(texts.map((one) => expected.test(one)))
      },
    ),
    { numRuns: 3000 },
  )
})
