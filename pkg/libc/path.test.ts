import { describe, expect, test } from "bun:test"
import * as node from "node:path"
import { array, assert, constantFrom, property } from "fast-check"
import { basename, dirname, join, resolve, resolveIn } from "./path.ts"

const paths = array(constantFrom("/", "/", ".", "..", "a", "b.c", " ", "ü"), { maxLength: 12 }).map((parts) =>
  parts.join(""),
)
const runs = { numRuns: 3000 }

describe("a path is taken apart and put together as by node:path", () => {
  test("its parts are joined", () => {
    assert(
      property(array(paths, { maxLength: 4 }), (parts) => expect(join(...parts)).toBe(node.join(...parts))),
      runs,
    )
  })

  test("its directory is found", () => {
    assert(
      property(paths, (path) => expect(dirname(path)).toBe(node.dirname(path))),
      runs,
    )
  })

  test("its last name is found", () => {
    assert(
      property(paths, (path) => expect(basename(path)).toBe(node.basename(path))),
      runs,
    )
  })

  test("it is made absolute", () => {
    assert(
      property(paths, (path) => {
        expect(resolve(path)).toBe(node.resolve(path))
        expect(resolveIn("/x/y", path)).toBe(node.resolve("/x/y", path))
      }),
      runs,
    )
  })
})

test("paths as they are in configurations", () => {
  expect(join("/var/lib/cni", "results", "mynet-c1-eth0")).toBe("/var/lib/cni/results/mynet-c1-eth0")
  expect(join("/var/lib/cni/", "/networks")).toBe("/var/lib/cni/networks")
  expect(join()).toBe(".")
  expect(dirname("/opt/cni/bin/bridge")).toBe("/opt/cni/bin")
  expect(basename("/opt/cni/bin/bridge")).toBe("bridge")
  expect(resolveIn("/etc/cni", "../x/./y/")).toBe("/etc/x/y")
})
