import { describe, expect, test } from "bun:test"
import { parseArgs } from "node:util"
import { array, assert, constantFrom, property } from "fast-check"
import { parseArguments } from "./arguments.ts"

const flags = {
  json: { type: "boolean" },
  "no-headers": { type: "boolean" },
  watch: { type: "boolean", short: "w" },
  output: { type: "string", short: "o" },
  keep: { type: "string", short: "k", multiple: true },
} as const

const read = (...line: string[]) => parseArguments(line, flags)

describe("a command line", () => {
  test("has flags before, between and behind its words", () => {
    expect(read("--json", "a", "--output", "wide", "b", "-w")).toEqual({
      flags: { json: true, output: "wide", watch: true },
      words: ["a", "b"],
    })
  })

  test("has values behind a blank, behind =, and behind a letter at once", () => {
    for (const line of [["--output", "x=y"], ["--output=x=y"], ["-o", "x=y"], ["-ox=y"]])
      expect(read(...line)).toEqual({ flags: { output: "x=y" }, words: [] })
    expect(read("--output=").flags).toEqual({ output: "" })
    expect(read("--output", "").flags).toEqual({ output: "" })
    expect(read("--output=two\nlines").flags).toEqual({ output: "two\nlines" })
  })

  test("has letters in one word, the last of them with a value", () => {
    expect(read("-wojson", "a")).toEqual({ flags: { watch: true, output: "json" }, words: ["a"] })
    expect(read("-wo", "json", "a")).toEqual({ flags: { watch: true, output: "json" }, words: ["a"] })
  })

  test("has flags more than once: the last counts, or all", () => {
    expect(read("-o", "a", "--output=b", "--json", "--json").flags).toEqual({ output: "b", json: true })
    expect(read("-k", "a", "--keep=b", "-kc").flags).toEqual({ keep: ["a", "b", "c"] })
  })

  test("has words alone behind --, and takes - for a word", () => {
    expect(read("-", "--", "--json", "-w", "--")).toEqual({ flags: {}, words: ["-", "--json", "-w", "--"] })
    expect(read("-o", "-").flags).toEqual({ output: "-" })
    expect(read("--output=--json", "-o-1").flags).toEqual({ output: "-1" })
  })
})

test.each([
  [["--bogus"], "unknown flag --bogus"],
  [["--bogus=1"], "unknown flag --bogus"],
  [["--outptu", "x"], "unknown flag --outptu (did you mean --output?)"],
  [["--hlep"], "unknown flag --hlep (did you mean --help?)"],
  [["--=x"], "unknown flag --=x"],
  [["--toString"], "unknown flag --toString"],
  [["-x"], "unknown flag -x"],
  [["-wx"], "unknown flag -x"],
  [["--output"], "--output needs a value"],
  [["-wo"], "-o needs a value"],
  [["--json=yes"], "--json takes no value"],
  [
    ["--output", "--json"],
    "--output needs a value, and --json looks like a flag: write --output=--json if it is the value",
  ],
  [["-o", "-1"], "-o needs a value, and -1 looks like a flag: write -o-1 if it is the value"],
])("%j is refused: %s", (line, message) => {
  expect(() => read(...line)).toThrow(new Error(message))
})

test("what parseArgs of node:util understands is understood alike, and the rest is refused", () => {
  const some = constantFrom(
    ...["--json", "--no-headers", "--watch", "-w", "--output", "--output=a", "-o", "-oa", "-wo", "-ow", "--keep", "-k"],
    ...["--keep=b", "-kb", "--", "-", "", "a", "-x", "--x", "--json=1", "-1", "--=", "="],
  )
  const attempt = (parse: () => unknown) => {
    try {
      return JSON.stringify(parse())
    } catch {
      return "refused"
    }
  }
  const order = ({ flags: found, words }: ReturnType<typeof parseArguments>) => [Object.entries(found).sort(), words]
  assert(
    property(array(some, { maxLength: 7 }), (line) => {
      const node = attempt(() => {
        const { values, positionals } = parseArgs({ args: line, options: flags, allowPositionals: true })
        return order({ flags: values, words: positionals })
      })
      expect(attempt(() => order(parseArguments(line, flags)))).toBe(node)
    }),
    { numRuns: 5000 },
  )
})
