import { expect, test } from "bun:test"
import { join } from "node:path"

const root = join(import.meta.dir, "..")
const notForPlugins =
  /\.(test|fixture)\.ts$|\/testing(\.ts$|\/)|^pkg\/(libcni|npm)\/|^pkg\/engine\/(bun|native|calls|node|web)/

const modules = [...new Bun.Glob("{pkg,plugins,ipam,meta}/*/**/*.ts").scanSync(root)]
  .filter((file) => !notForPlugins.test(file))
  .map((file) => join(root, file))

/**
 * Imports all modules with traps for system calls, clock and random numbers. Returns the first called function's name.
 */
function touchedBy(more = ""): string {
  const script = `
    const { engine } = await import(${JSON.stringify(join(root, "pkg/engine/mod.ts"))})
    const trap = (name) => function () { console.log(name); process.exit(1) }
    for (const name of Object.keys(engine)) if (!/^(en|de)code/.test(name)) engine[name] = trap(name)
    const now = trap("Date.now")
    globalThis.Date = Object.assign(trap("Date"), { now })
    performance.now = trap("performance.now")
    Math.random = trap("Math.random")
    for (const module of ${JSON.stringify(modules)}) await import(module)
    ;${more}`
  const { stdout, stderr } = Bun.spawnSync([process.execPath, "-e", script])
  return `${stdout}${stderr}`
}

// The heap after loading may become an image that every process shares.
test("importing a plugin's modules does nothing: no system call, no clock, no chance, no environment", () => {
  expect(modules.length).toBeGreaterThan(100)
  expect(touchedBy()).toBe("")
})

test.each([
  ["String(new Date())", "Date"],
  ["Date.now()", "Date.now"],
  ["Math.random()", "Math.random"],
  ["engine.monotonicMs()", "monotonicMs"],
  [`(await import("${root}/pkg/engine/mod.ts")).monotonicMs()`, "performance.now"],
  [`(await import("${root}/pkg/libc/mod.ts")).randomHex(4)`, "getrandom"],
  [`(await import("${root}/pkg/libc/mod.ts")).readEnvironment()`, "environment"],
])("%s would be seen", (code, name) => {
  expect(touchedBy(code)).toBe(`${name}\n`)
})
