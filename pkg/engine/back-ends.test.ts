/** Properties of each back end beyond the contract: the text of exceptions, and positions in stack traces. */
import { afterAll, expect, test } from "bun:test"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { engine, exhaustion, locate } from "./bun.ts"

const root = join(import.meta.dir, "../..")

test("on Bun a source is named from the repository's root, and what is not ours has none", () => {
  expect(locate(`${root}/pkg/ip/veth.ts`, 32, 7)).toBe("pkg/ip/veth.ts:32")
  expect(locate(`${root}/node_modules/x/veth.ts`, 32, 7)).toBeUndefined()
  expect(locate("/elsewhere/pkg/ip/veth.ts", 32, 7)).toBeUndefined()
})

function recurse(depth: number): number {
  return recurse(depth + 1) + 1
}

test("on Bun it is told by the exception what has run out", () => {
  let overflow: unknown
  try {
    recurse(0)
  } catch (error) {
    overflow = error
  }
  expect(exhaustion(overflow)).toBe("stack")
  expect(exhaustion(new RangeError("Out of memory"))).toBe("memory")
  expect([new RangeError("other"), new Error("Out of memory"), null].map(exhaustion)).toEqual(Array(3).fill(undefined))
})

const directory = mkdtempSync(join(tmpdir(), "engine-"))
afterAll(() => rmSync(directory, { recursive: true }))

test.each([[[]], [["one", "", "dé"]]])(
  "environment and arguments %j are those that a program was started with",
  (own) => {
    const program = join(directory, "program.ts")
    const door = JSON.stringify(join(import.meta.dir, "mod.ts"))
    const answer = "console.log(JSON.stringify([engine.environment(), engine.arguments()]))"
    writeFileSync(program, `import { engine } from ${door}\n${answer}`)
    const env = { EMPTY: "", NAME: "ü=x" }
    const { stdout } = Bun.spawnSync([process.execPath, program, ...own], { env, cwd: root })
    expect(JSON.parse(stdout.toString())).toEqual([
      ["EMPTY=", "NAME=ü=x"],
      [process.execPath, ...own],
    ])
  },
)

const none = Int32Array.of(-1, -1, -1)

function detached(): Uint8Array {
  const array = new Uint8Array(8)
  array.buffer.transfer()
  return array
}

test.each<[string, () => unknown]>([
  ["expected a text", () => engine.open(1 as never, 0, 0)],
  ["expected a text", () => engine.encodeUtf8(1 as never)],
  ["expected an integer", () => engine.close("1" as never)],
  ["expected an integer from -2147483648 to 4294967295", () => engine.close(2 ** 32)],
  ["expected an integer from 0 to 255", () => engine.exit(256)],
  ["expected a typed array", () => engine.read(-1, "x" as never)],
  ["expected an array that is not detached", () => engine.read(-1, detached())],
  ["expected an array of 256 bytes", () => engine.statx(-100, "/", 0, 0, new Uint8Array(255))],
  ["expected an array of 40 bytes", () => engine.ioctlIfreq(-1, 0, new Uint8Array(39))],
  ["expected an array of 8 bytes", () => engine.rt_sigprocmask(0, new Uint8Array(7), 8)],
  ["expected 4096 instructions at most", () => engine.attachFilter(-1, new Uint8Array(8 * 4097))],
  ["expected 8 descriptors at most", () => engine.sendDescriptors(-1, new Int32Array(9))],
  ["expected an array of strings", () => engine.startProcess("/bin/true", "x" as never, [], null, none, 0)],
  ["expected three descriptors", () => engine.startProcess("/bin/true", [], [], null, Int32Array.of(0), 0)],
])("on Bun a wrong argument is told: %s", (message, call) => {
  expect(call).toThrow(expect.objectContaining({ message }))
})

const positions = ["main", "pkg/a.ts", "0:1,"].join("\n")
Object.assign(globalThis, { host: { positions: () => positions } })
afterAll(() => {
  Reflect.deleteProperty(globalThis, "host")
})
const native = await import("./native.ts")

test("on the native host the table of positions tells the source", () => {
  expect(native.engine).toBe(Reflect.get(globalThis, "host"))
  expect(native.locate("main", 2, 1)).toBe("pkg/a.ts:2")
  expect(native.locate("other", 2, 1)).toBeUndefined()
})

const internal = (message: string) => Object.assign(new Error(message), { name: "InternalError" })

test.each<[string | undefined, string, () => unknown]>([
  ["memory", "null, when even the message needs memory", () => null],
  ["memory", "its InternalError", () => internal("out of memory")],
  ["stack", "its RangeError", () => new RangeError("Maximum call stack size exceeded")],
  [undefined, "another error of that text", () => new Error("Maximum call stack size exceeded")],
  [undefined, "another RangeError", () => new RangeError("other")],
  [undefined, "another InternalError", () => internal("other")],
  [undefined, "an Error of that text", () => new Error("out of memory")],
  [undefined, "a text", () => "out of memory"],
  [undefined, "nothing", () => undefined],
])("on the native host %p has run out by %s", (what, _, thrown) => {
  expect(native.exhaustion(thrown())).toBe(what as never)
})
