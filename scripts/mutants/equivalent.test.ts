import { expect, test } from "bun:test"
import { existsSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { differenceOf, format, readEquivalents } from "./equivalent.ts"
import { applyChange, changesOf } from "./operators.ts"

const root = join(import.meta.dir, "../..")

test("what is written down as making no difference is a mistake that can still be made, and has a reason", () => {
  const known = new Map<string, Set<string>>()
  const mistakesIn = (file: string) => {
    const path = join(root, file)
    const source = existsSync(path) ? readFileSync(path, "utf8") : ""
    return new Set(changesOf(source).map((change) => format(differenceOf(file, source, applyChange(source, change)))))
  }
  const wrong = readEquivalents(join(import.meta.dir, "equivalent")).filter((written) => {
    if (!known.has(written.file)) known.set(written.file, mistakesIn(written.file))
    return written.reason === "" || !known.get(written.file)?.has(format(written))
  })
  expect(wrong).toEqual([])
})
