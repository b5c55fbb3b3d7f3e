import { existsSync, readFileSync } from "node:fs"
import { dirname, join, normalize } from "node:path"

/**
 * Rooms whose unit tests are asked when the room's own tell nothing; those of `tools` and `cmd`, which import all, of
 * their own sources alone, but for what is made of all plugins' tables.
 */
const rooms = "{pkg,plugins,ipam,meta,install,suite,tools,cmd}"
const isOfTool = (file: string) => /^(suite|tools|cmd)\//.test(file) && !isOfAllPlugins(file)
const isOfAllPlugins = (test: string) => /^(suite\/plugins|tools\/configuration\/[^/]+)\.test\.ts$/.test(test)

/** Tests, and what only tests import. */
const forTests = /\.(test|fixture)\.ts$|\/testing(\.ts$|\/)/

/** The sources of a room (`pkg/nftables`) that are part of the executable, or one source that is named by itself. */
export function sourcesOf(root: string, room: string): string[] {
  if (room.endsWith(".ts")) return [room]
  return [...new Bun.Glob(`${room}/**/*.ts`).scanSync(root)].filter((file) => !forTests.test(file)).sort()
}

/** By how many tests of other rooms a mistake is looked at, and by how many on a kernel. */
const fromElsewhere = 12
const fromKernel = 6

/**
 * Tests of rooms on a real kernel, which need no build; this one compares the numbers in all sources with the kernel's
 * headers.
 */
const onKernel = "integration/kernel"
const headers = `${onKernel}/pkg/headers.test.ts`
const isSlow = (test: string) => /\/(crash|fuzz|lock|process|processes|contract)\.test\.ts$/.test(test)

/** Which unit tests may notice what a source does: those that import it, by however many steps. */
export class TestsBySource {
  readonly #imports = new Map<string, string[]>()
  readonly #steps = new Map<string, ReadonlyMap<string, number>>()
  readonly #tests: string[]
  readonly #root: string

  constructor(root: string) {
    this.#root = root
    this.#tests = [
      ...new Bun.Glob(`${rooms}/**/*.test.ts`).scanSync(root),
      ...new Bun.Glob(`${onKernel}/**/*.test.ts`).scanSync(root),
    ].sort()
  }

  /**
   * The test beside the source; the others of its room that are quick; of those of other rooms the dozen that is
   * nearest by imports; those of its room that take long; on a kernel.
   */
  of(source: string): [beside: string[], room: string[], elsewhere: string[], slow: string[], kernel: string[]] {
    const beside = source.replace(/\.ts$/, ".test.ts")
    const room = `${source.split("/").slice(0, 2).join("/")}/`
    const isKernel = (test: string) => test.startsWith(onKernel)
    const steps = (test: string) => this.#stepsFrom(test).get(source) ?? Number.POSITIVE_INFINITY
    const all = this.#tests.filter((test) => (isOfTool(source) || !isOfTool(test)) && Number.isFinite(steps(test)))
    const nearest = [...all].sort((a, b) => steps(a) - steps(b))
    const elsewhere = nearest.filter((test) => !test.startsWith(room) && !isSlow(test) && !isKernel(test))
    const others = all.filter((test) => test !== beside && test.startsWith(room))
    return [
      all.filter((test) => test === beside),
      others.filter((test) => !isSlow(test)),
      elsewhere.slice(0, fromElsewhere),
      others.filter(isSlow),
      [headers, ...nearest.filter((test) => isKernel(test) && test !== headers).slice(0, fromKernel)],
    ]
  }

  /** What a test imports, and by how many steps; the laboratory knows every plugin, and tries none by that. */
  #stepsFrom(test: string): ReadonlyMap<string, number> {
    const known = this.#steps.get(test)
    if (known !== undefined) return known
    const steps = new Map([[test, 0]])
    for (const [file, step] of steps)
      if (!file.startsWith("integration/lab/"))
        for (const imported of this.#importsOf(file)) if (!steps.has(imported)) steps.set(imported, step + 1)
    this.#steps.set(test, steps)
    return steps
  }

  #importsOf(file: string): string[] {
    const known = this.#imports.get(file)
    if (known !== undefined) return known
    const source = readFileSync(join(this.#root, file), "utf8")
    const quoted = [...source.matchAll(/(?:\bfrom|\bimport\(?|\bjoin\(import\.meta\.dir,)\s*"(\.[^"]+\.ts|#engine)"/g)]
    const paths = quoted.map(([, path = ""]) =>
      path === "#engine" ? "pkg/engine/bun.ts" : normalize(join(dirname(file), path)),
    )
    // A test's texts may show an import of what does not exist.
    const sources = paths.filter((path) => existsSync(join(this.#root, path)))
    this.#imports.set(file, sources)
    return sources
  }
}
