import { expect, test } from "bun:test"
import { continued, inOneLine, quoted, sh } from "./remedy.ts"

test.each([
  ["cni0", "cni0"],
  ["10.85.0.1/24", "10.85.0.1/24"],
  ["", "''"],
  ["a b", "'a b'"],
  ["it's", "'it'\\''s'"],
  ["$(reboot)", "'$(reboot)'"],
  ["a;b", "'a;b'"],
  ["~", "'~'"],
])("the word %j is written for a shell as %j, and the shell reads the word", (word, written) => {
  expect(quoted(word)).toBe(written)
  expect(Bun.spawnSync(["sh", "-c", `printf %s ${written}`]).stdout.toString()).toBe(word)
})

test("values of a command are quoted, lists are words, and commands are inserted", () => {
  expect(sh`ip link set ${"a b"} mtu ${1500}`.line).toBe("ip link set 'a b' mtu 1500")
  expect(sh`rm ${["a", "b c"]}; ${sh`ls ${"d"}`}`.line).toBe("rm a 'b c'; ls d")
})

test("commands that differ in one value are a loop, equal ones are one, and others follow one another", () => {
  const up = (name: string) => sh`ip link set ${name} up`
  const both = (name: string, mtu: number) => sh`ip link set ${name} mtu ${mtu}`
  expect(inOneLine([]).line).toBe("")
  expect(inOneLine([up("a"), up("a")]).line).toBe("ip link set a up")
  expect(inOneLine([up("a"), up("b c"), up("a")]).line).toBe(`for each in a 'b c'; do ip link set "$each" up; done`)
  expect(inOneLine([both("a", 1), both("b", 2)]).line).toBe("ip link set a mtu 1; ip link set b mtu 2")
  expect(inOneLine([both("a", 1), both("a", 2)]).line).toBe("ip link set a mtu 1; ip link set a mtu 2")
  expect(inOneLine([up("a"), sh`reboot`, up("b")]).line).toBe(
    `for each in a b; do ip link set "$each" up; done; reboot`,
  )
  const both2 = (name: string) => inOneLine([sh`ip link add br0 type bridge`, up(name)])
  expect(inOneLine([both2("a"), both2("b")]).line).toBe(
    `ip link add br0 type bridge; for each in a b; do ip link set "$each" up; done`,
  )
  const remove = (file: string) => sh`rm ${[file]}`
  expect(inOneLine([remove("a"), remove("b c")]).line).toBe("rm a 'b c'")
  const twice = (files: string[]) => sh`chown root ${files}; chmod 700 ${files}`
  expect(inOneLine([twice(["a"]), twice(["b"])]).line).toBe("chown root a b; chmod 700 a b")
})

test("a loop does for each word what its command does", () => {
  const { line } = inOneLine(["a b", "it's", "$HOME"].map((word) => sh`printf '%s\n' ${word}`))
  expect(Bun.spawnSync(["sh", "-c", line]).stdout.toString()).toBe("a b\nit's\n$HOME\n")
})

test("a long command is broken between words, and the shell reads the lines as one", () => {
  const line = sh`printf '%s|' ${["one", "two words", "three", "it's", "five"]}`.line
  const lines = continued(line, 20)
  expect(lines).toEqual(["printf '%s|' one \\", "'two words' three \\", "'it'\\''s' five"])
  expect(continued(line, 80)).toEqual([line])
  expect(Bun.spawnSync(["sh", "-c", lines.join("\n")]).stdout.toString()).toBe("one|two words|three|it's|five|")
})
