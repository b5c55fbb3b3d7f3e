import { afterAll, beforeAll, expect, test } from "bun:test"
import { join } from "node:path"
import { run as compile, engineSource } from "../../scripts/engine.ts"
import { runProgram, TemporaryDirectory } from "../lab/mod.ts"
import { buildingMs } from "./launcher.ts"

/** The engine as in plugins, and with AddressSanitizer for each of its memory blocks. */
const flavours = {
  plain: ["-O0"], // compiles in seconds
  watched: ["-O0", "-fsanitize=address", "-fno-omit-frame-pointer"],
}
type Flavour = keyof typeof flavours

let built: TemporaryDirectory
beforeAll(async () => {
  built = await TemporaryDirectory.create("cni-image")
  const source = await engineSource()
  const engine = ["-std=gnu11", "-D_GNU_SOURCE", "-DQUICKJS_NG_BUILD", "-funsigned-char", "-w", `-I${source}`]
  const others = ["dtoa.c", "libregexp.c", "libunicode.c"].map((file) => join(source, file))
  await Promise.all(
    Object.entries(flavours).map(([name, flags]) =>
      compile(["gcc", ...flags, ...engine, "-o", built.join(name), join(import.meta.dir, "image.c"), ...others, "-lm"]),
    ),
  )
}, buildingMs)
afterAll(() => built[Symbol.asyncDispose]())

const scripts = ["image-made.fixture.js", "image-used.fixture.js"].map((name) => join(import.meta.dir, name))

async function run(flavour: Flavour, rounds: number, fail = 0) {
  const env = { ASAN_OPTIONS: "detect_leaks=0:allocator_may_return_null=1" }
  return runProgram([built.join(flavour), ...scripts, `${rounds}`, `${fail}`], { env })
}

test.each<Flavour>(["plain", "watched"])(
  "what the image holds is used, changed and dropped as without one, and no count in it is written (%s)",
  async (flavour) => {
    const without = await run(flavour, 0)
    const [expected = ""] = without.stdout.split(/^\d+ blocks\n/m)
    expect(expected).toContain("sorted=")
    const { exitCode, stdout, stderr } = await run(flavour, 5)
    expect([exitCode, stderr]).toEqual([0, ""])
    expect(stdout.split(/^\d+ blocks\n/m)).toEqual([...Array(5).fill(expected), ""])
    // Nothing remains after a round: the number of blocks is the same after each round from the second.
    const alive = [...stdout.matchAll(/^(\d+) blocks$/gm)].map((match) => match[1])
    expect(new Set(alive.slice(1)).size).toBe(1)
  },
)

test("without memory, at each allocation, no count in the image is written and no freed block is touched", async () => {
  const ended = { well: 0, inException: 0, inAssertion: 0 }
  for (let fail = 1; fail < 6000; fail += 97) {
    const { exitCode, stderr } = await run("watched", 1, fail)
    expect(stderr).not.toMatch(/AddressSanitizer|a count of the image/)
    if (exitCode === 0) ended.well++
    else if (exitCode === 9) ended.inException++
    else {
      // An assertion of the engine failed. Plugins end before that, see host/memory.c.
      expect([exitCode, stderr]).toEqual([128 + 6, expect.stringMatching(/Assertion .* failed/)])
      ended.inAssertion++
    }
  }
  expect(ended.inException).toBeGreaterThan(20)
})
