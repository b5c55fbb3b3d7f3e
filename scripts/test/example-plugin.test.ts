import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { applyStep, makeExamplePlugin } from "./example-plugin.ts"

describe("the plugin that is made from the steps of CONTRIBUTING", () => {
  let directory = ""

  const run = (...args: string[]) => {
    const { exitCode, stdout, stderr } = Bun.spawnSync(args, { cwd: directory })
    return { exitCode, said: `${stdout}${stderr}` }
  }

  beforeAll(() => {
    directory = mkdtempSync(join(tmpdir(), "cni-example-"))
    makeExamplePlugin(directory)
  })

  afterAll(() => rmSync(directory, { recursive: true, force: true }))

  test("has the right types", () => {
    const include = [
      "tools/pages.d.ts",
      "suite/plugins.ts",
      "plugins/macvtap",
      "integration/macvtap",
      "integration/lab",
    ]
    writeFileSync(join(directory, "tsconfig.macvtap.json"), JSON.stringify({ extends: "./tsconfig.json", include }))
    expect(run("node_modules/.bin/tsc", "-p", "tsconfig.macvtap.json")).toEqual({ exitCode: 0, said: "" })
  }, 900_000)

  test("is formatted, and without warnings of the linter", () => {
    const files = ["plugins/macvtap", "suite/plugins.ts", "integration/macvtap", "integration/lab/plugins.ts"]
    expect(run("node_modules/.bin/biome", "check", ...files)).toMatchObject({ exitCode: 0 })
  }, 900_000)

  test("is one by itself", () => {
    expect(run(process.execPath, "plugins/macvtap/main.ts").said).toStartWith("CNI macvtap plugin v")
  })

  test("is in every list that a test holds", () => {
    const lists = ["cmd/main", "suite/plugins", "configuration/", "scripts/bundle", "test/pages"]
    const others = ["bench/targets", "attachment/kinds", "config/names", "pkg/boundaries"]
    const { exitCode, said } = run(process.execPath, "test", "--timeout", "60000", ...lists, ...others)
    expect({ exitCode, failed: said.match(/^\(fail\).*/gm) }).toEqual({ exitCode: 0, failed: null })
    expect(said).toContain("(pass) macvtap: the table of keys on its page is that of config.ts")
  }, 900_000)
})

test("a step is done where its lines are, once, or not at all", () => {
  const step = { file: "x", isNew: false, text: " b\n-c\n+d" }
  expect(applyStep("a\nb\nc\ne", step)).toBe("a\nb\nd\ne")
  for (const before of ["a\nc", "b\nc\nb\nc"]) expect(() => applyStep(before, step)).toThrow("Cannot do a step in x")
})
