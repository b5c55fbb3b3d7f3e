import { expect, test } from "bun:test"
import { type Engine, engine } from "../engine/mod.ts"
import { FileDescriptor, Open } from "./descriptor.ts"
import {
  CLONE_NEWNET,
  namespaceType,
  programArguments,
  programName,
  randomBytes,
  randomHex,
  readEnvironment,
  setNetworkNamespace,
} from "./process.ts"

test("a file of /proc tells that it is a network namespace, and other files do not", () => {
  using namespace = FileDescriptor.open("/proc/self/ns/net", Open.ReadOnly)
  expect(namespaceType(namespace.fd)).toBe(CLONE_NEWNET)
  using uts = FileDescriptor.open("/proc/self/ns/uts", Open.ReadOnly)
  expect(namespaceType(uts.fd)).toBe(0x04000000) // CLONE_NEWUTS, <linux/sched.h>
  using device = FileDescriptor.open("/dev/null", Open.ReadOnly)
  expect(() => namespaceType(device.fd)).toThrow("ENOTTY")
})

test("a thread cannot move into what is not a network namespace", () => {
  using device = FileDescriptor.open("/dev/null", Open.ReadOnly)
  expect(() => setNetworkNamespace(device.fd)).toThrow(`setns descriptor ${device.fd}: Invalid argument (EINVAL)`)
})

function withEngine(of: Partial<Engine>, work: () => void): void {
  const real = { arguments: engine.arguments, environment: engine.environment }
  try {
    Object.assign(engine, of)
    work()
  } finally {
    Object.assign(engine, real)
  }
}

test.each([
  [["/opt/cni/bin/bridge", "a", ""], "bridge", ["a", ""]],
  [["bridge"], "bridge", []],
  [[], "", []],
])("the program %j is called %j, with arguments %j", (given, name, args) => {
  withEngine({ arguments: () => given }, () => {
    expect(programName()).toBe(name)
    expect(programArguments()).toEqual(args)
  })
})

test("random bytes are as many as are asked for, and as text two digits each", () => {
  expect(randomBytes(5)).toHaveLength(5)
  expect(randomBytes(16)).not.toEqual(randomBytes(16))
  expect(randomHex(256)).toMatch(/^[0-9a-f]{512}$/)
})

test("of a variable that stands twice in the environment the first value counts, and what has no name is not a variable", () => {
  withEngine({ environment: () => ["A=1", "B=x=y", "A=2", "=3", "none", "C="] }, () => {
    expect(readEnvironment()).toEqual({ A: "1", B: "x=y", C: "" })
  })
})
