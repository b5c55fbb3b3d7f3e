import { expect, test } from "bun:test"
import { dirname, join, relative } from "node:path"

const root = join(import.meta.dir, "..")

/** What a module loads at once: imports and re-exports of values. `import()` loads later, and types are not loaded. */
function loadedBy(source: string): string[] {
  const statements = source.matchAll(/^(?:import|export)\b(?! type\b)[^"'`;]*?\bfrom\s+"([^"]+)"|^import\s+"([^"]+)"/gm)
  return [...statements].map(([, from = "", bare = ""]) => from || bare)
}

/** The files and packages that are loaded with a module, as paths of the project and names of packages. */
async function loadedWith(main: string): Promise<Set<string>> {
  const loaded = new Set([main])
  for (const file of loaded) {
    if (!file.endsWith(".ts")) continue
    for (const from of loadedBy(await Bun.file(join(root, file)).text()))
      loaded.add(from.startsWith(".") ? relative(root, join(root, dirname(file), from)) : from)
  }
  return loaded
}

test("the tool starts without the pages that explain alone reads", async () => {
  const loaded = await loadedWith("cmd/main.ts")
  expect([...loaded]).toContain("tools/explain/command.ts")
  expect([...loaded].filter((each) => each.startsWith("docs/"))).toEqual([])
})

test("what explain reads is loaded with its own modules", async () => {
  const loaded = await loadedWith("tools/explain/findings.ts")
  expect([...loaded]).toEqual(expect.arrayContaining(["docs/findings.md", "docs/messages.md", "docs/errors.md"]))
})
