import { describe, expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import { bundle } from "./bundle.ts"
import { usedFunctions } from "./engine.ts"
import { usedNames, usedNamesOf } from "./native.ts"
import { pluginNames, programsOf } from "./programs.ts"

const linesOf = (file: string) => readFileSync(file, "utf8").trimEnd().split("\n")

describe("the lists of what calls use", () => {
  test.each([usedFunctions, usedNames])("%s is sorted and names each once", (file) => {
    const names = linesOf(file).map((line) => line.split("\t")[0])
    expect(names).toEqual([...new Set(names)].sort())
  })

  test("19 of 20 names are in the plugins: else it is time to record them again", async () => {
    const { script } = await bundle("plugins", await programsOf(...pluginNames))
    const words = new Set((script.match(/#?[\w$]+/g) ?? []).map((word) => word.replace(/[0-9]+$/, "")))
    const names = linesOf(usedNames).map((line) => line.split("\t")[0] ?? "")
    const gone = names.filter((name) => !words.has(name.replace(/^([gs]et |\[Symbol\.)/, "").replace(/\]$/, "")))
    expect(gone.length, gone.join(" ")).toBeLessThan(names.length / 20)
  })

  test("a name belongs to the plugins that use it, and only plugins are named", () => {
    const plugins = new Set(linesOf(usedNames).flatMap((line) => line.split("\t").slice(1)))
    expect([...plugins].filter((name) => !pluginNames.includes(name))).toEqual([])
    expect(usedNamesOf(["portmap"])).toContain("hairpinRule")
    expect(usedNamesOf(["bridge", "unknown"])).not.toContain("hairpinRule")
  })

  test("an executable that was not recorded has the names of all", () => {
    expect(usedNamesOf(["macvtap"])).toHaveLength(linesOf(usedNames).length)
  })
})
