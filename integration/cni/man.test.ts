import { expect, test } from "bun:test"
import { readdirSync } from "node:fs"
import { join } from "node:path"
import { pluginNames } from "../../suite/plugins.ts"
import { builtPlugins, mustRun, runProgram } from "../lab/mod.ts"

const manual = join(builtPlugins, "../man")
const pages = ["man1", "man8"].flatMap((section) =>
  readdirSync(join(manual, section)).map((name) => join(section, name)),
)

test("the build has the pages of the tool and of every plugin", () => {
  expect(pages).toContain("man1/cni.1")
  expect(pages).toContain("man1/cni-lint.1")
  expect(readdirSync(join(manual, "man8")).sort()).toEqual(pluginNames.map((name) => `cni-${name}.8`).sort())
})

test("groff sets every page without a warning", async () => {
  const warned: string[] = []
  for (const page of pages) {
    const { stdout, stderr } = await runProgram(["groff", "-ww", "-man", "-Tutf8", "-rLL=110n", join(manual, page)])
    if (stderr !== "" || stdout.length < 300) warned.push(`${page}: ${stderr}`)
  }
  expect(warned).toEqual([])
})

test("a page reads as its source: keys with what they mean, an example as it is, and marks of no kind", async () => {
  const { stdout: text } = await mustRun([
    "groff",
    "-man",
    "-Tascii",
    "-P-cbou",
    "-rLL=200n",
    join(manual, "man8/cni-bridge.8"),
  ])
  expect(text).toContain(
    "isDefaultGateway\n              isGateway, and a default route in the container for each family that has none. By default: false.",
  )
  expect(text).toContain('             "isDefaultGateway": true,\n             "ipMasq": true,')
  expect(text).not.toMatch(/`|\*\*|\]\(|^\|/m)
})
