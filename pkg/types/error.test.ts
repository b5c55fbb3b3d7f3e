import { expect, test } from "bun:test"
import { join } from "node:path"
import { willPass } from "./error.ts"
import { CniError, Code, isCniError, orCannot, toErrorObject } from "./mod.ts"

test("#124 the text of an error is message and details, or the message alone", () => {
  expect(String(new CniError(Code.Io, "Cannot read", { details: "disk gone" }))).toBe("Cannot read; disk gone")
  expect(String(new CniError(Code.Io, "Cannot read"))).toBe("Cannot read")
  expect(String(new CniError(Code.Io, "Cannot read", { details: "" }))).toBe("Cannot read")
})

test("details come from the causes when none are given", () => {
  const cause = new Error("openat", { cause: new Error("ENOENT") })
  expect(new CniError(Code.Io, "Cannot read", { cause }).details).toBe("openat: ENOENT")
  expect(new CniError(Code.Io, "Cannot read", { cause, details: "own" }).details).toBe("own")
  const known = new CniError(1, "b", { details: "c", cause: new Error("not told") })
  expect(new CniError(Code.Io, "a", { cause: known }).details).toBe("b; c")
  expect(new CniError(Code.Io, "a", { cause: new Error("between", { cause: known }) }).details).toBe("between: b; c")
  expect(new CniError(Code.Io, "a", { cause: "text" }).details).toBe("text")
  for (const cause of [undefined, null]) expect(new CniError(Code.Io, "a", { cause }).details).toBeUndefined()
})

test("a circle of causes comes to an end", () => {
  const one = new Error("one")
  one.cause = one
  expect(new CniError(Code.Io, "Cannot read", { cause: one }).details).toBe(Array(8).fill("one").join(": "))
  expect(willPass(one)).toBe(false)
})

test("an error object has version, code and message, and details only if there are any", () => {
  expect(toErrorObject(new CniError(1234, "own code"), "1.0.0")).toEqual({
    cniVersion: "1.0.0",
    code: 1234,
    msg: "own code",
  })
  expect(toErrorObject(new CniError(7, "bad", { details: "why" }), "1.1.0")).toEqual({
    cniVersion: "1.1.0",
    code: 7,
    msg: "bad",
    details: "why",
  })
})

test("anything else that is thrown becomes code 999 with its text", () => {
  expect(toErrorObject(new Error("oops", { cause: "deep" }), "1.1.0")).toEqual({
    cniVersion: "1.1.0",
    code: Code.Internal,
    msg: "oops",
    details: "deep",
  })
  for (const [thrown, msg] of [
    ["just text", "just text"],
    [undefined, "undefined"],
  ])
    expect(toErrorObject(thrown, "1.1.0")).toEqual({ cniVersion: "1.1.0", code: 999, msg: String(msg) })
})

test("#42 a code is the specification's, upstream's 0 or 8, or 100 and above, and no file makes up another", async () => {
  const reserved: number[] = Object.values(Code).filter((code) => code < 100)
  expect(reserved).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 11, 50, 51])
  const root = join(import.meta.dir, "../..")
  const files = [...new Bun.Glob("{pkg,plugins,ipam,meta,install,tools,cmd}/**/*.ts").scanSync(root)]
  const sources = files.filter((file) => !/\.(test|fixture)\.ts$/.test(file)).map((file) => Bun.file(join(root, file)))
  const made = (await Promise.all(sources.map((source) => source.text()))).join("").match(/new CniError\(\s*\S+/g) ?? []
  expect(made.length).toBeGreaterThan(50)
  expect(made.filter((text) => /\d/.test(text))).toEqual([])
})

test("#44 code 3, which says that there is nothing to clean up, is for a container ID that was not given, and nothing else", async () => {
  const root = join(import.meta.dir, "../..")
  const files = [...new Bun.Glob("{pkg,plugins,ipam,meta,install,tools,cmd}/**/*.ts").scanSync(root)]
  const users: string[] = []
  for (const file of files.filter((name) => !name.endsWith(".test.ts"))) {
    if ((await Bun.file(join(root, file)).text()).includes("Code.UnknownContainer")) users.push(file)
  }
  expect(users).toEqual(["pkg/types/names.ts"])
})

test("#43 an error that will pass is code 11, however often it is wrapped, and any other code stays", () => {
  const others = Object.assign(new Error("other programs keep changing it"), { willPass: true })
  const wrapped = new CniError(Code.Internal, "Cannot remove the rules", {
    cause: new Error("plan", { cause: others }),
  })
  const outer = new CniError(Code.Internal, "Cannot add", { cause: wrapped, details: "own" })
  for (const error of [others, wrapped, outer]) expect(toErrorObject(error, "1.1.0").code).toBe(11)
  expect(new CniError(Code.Io, "Cannot write", { cause: others }).code).toBe(5)
  expect(new CniError(Code.Internal, "Cannot add", { cause: new Error("no") }).code).toBe(999)
})

test("a reason that passes is looked for in eight causes, and is one only where it says so", () => {
  const deep = (depth: number): Error =>
    new Error("x", { cause: depth === 0 ? new CniError(11, "busy") : deep(depth - 1) })
  expect([willPass(deep(6)), willPass(deep(7))]).toEqual([true, false])
  expect(willPass(Object.assign(new Error("x"), { willPass: "yes" }))).toBe(false)
  expect(willPass("busy")).toBe(false)
})

test("errors are told apart by code", () => {
  const error = new CniError(Code.TryAgainLater, "busy")
  expect(isCniError(error)).toBe(true)
  expect(isCniError(error, Code.TryAgainLater)).toBe(true)
  expect(isCniError(error, Code.Io)).toBe(false)
  expect(isCniError(new Error("busy"))).toBe(false)
})

test("an error of a step is the cause of one that says what could not be done", () => {
  const cause = new Error("no route to host")
  const step = () => {
    throw cause
  }
  const expected = expect.objectContaining({ code: Code.Internal, message: "Cannot reach it", cause })
  expect(() => orCannot("Cannot reach it", step)).toThrow(expected)
  expect(orCannot("Cannot reach it", () => 7)).toBe(7)
})
