import { expect, test } from "bun:test"
import { join } from "node:path"
import { sourceFrames, withFrames } from "./frames.ts"

function errorOf(depth: number): unknown {
  const deep = (left: number): number => {
    if (left === 0) throw new Error("here")
    return deep(left - 1) + 1
  }
  try {
    return deep(depth)
  } catch (error) {
    return error
  }
}

test("frames are those of our sources, the innermost first, and four at most unless another limit is given", () => {
  const error = errorOf(9)
  expect(sourceFrames(error)).toHaveLength(4)
  expect(sourceFrames(error, 2)).toHaveLength(2)
  for (const frame of sourceFrames(error)) expect(frame).toMatch(/^deep pkg\/engine\/frames\.test\.ts:\d+$/)
  expect(sourceFrames("no error")).toEqual([])
})

test("a frame is a call of our sources, with its name if it has one", () => {
  const file = (name: string) => join(import.meta.dir, name)
  const stack = [
    "Error: at once (not a frame:1:2)",
    `    at addVeth (${file("veth.ts")}:32:7)`,
    `    at async new Netns (${file("netns.ts")}:3:14)`,
    `    at ${file("main.ts")}:71:1`,
    "    at map (native)",
    "    at run (/elsewhere/x.ts:1:1)",
    `    at last (${file("z.ts")}:1:10)`,
  ].join("\n")
  const error = Object.assign(new Error("no"), { stack })
  const frames = [
    "addVeth pkg/engine/veth.ts:32",
    "async new Netns pkg/engine/netns.ts:3",
    "pkg/engine/main.ts:71",
    "last pkg/engine/z.ts:1",
  ]
  expect(sourceFrames(error, 9)).toEqual(frames)
  expect(withFrames(error)).toBe(["Error: no", ...frames].join("\n    at "))
})

test("what is not an error has its text alone", () => {
  expect(withFrames("no error")).toBe("no error")
})
