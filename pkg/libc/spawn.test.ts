import { afterAll, describe, expect, test } from "bun:test"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { type Engine, engine } from "../engine/mod.ts"
import { answerSpawnCase, descriptors, isChildless, spawnCases } from "./spawn.fixture.ts"
import { spawn } from "./spawn.ts"

const directory = mkdtempSync(join(tmpdir(), "spawn-"))
afterAll(() => rmSync(directory, { recursive: true }))

// integration/executable/engine-contract.test.ts runs the same cases on the native host.
describe("spawn:", () => {
  test.each(spawnCases.map(([name, , expected], at) => [name, at, expected] as const))("%s", (_, at, expected) => {
    expect(answerSpawnCase(at, directory)).toEqual({ answer: expected, leaked: 0, childless: true })
  })
})

/** Makes the n-th call of a system call fail while `work` runs. */
function failing(
  name: "pipe2" | "open" | "fcntl" | "pidfd_open" | "poll" | "read" | "write" | "wait4",
  nth: number,
  work: () => void,
): void {
  const calls = engine as unknown as Record<string, unknown>
  const real = engine[name] as (...values: unknown[]) => number
  let count = 0
  calls[name] = (...values: unknown[]) => (++count === nth ? -24 : real(...values)) // EMFILE
  try {
    work()
  } finally {
    calls[name] = real
  }
}

test.each([
  ["open", 1, {}],
  ["pipe2", 1, {}],
  ["pipe2", 2, {}],
  ["pipe2", 3, { stdin: new Uint8Array(9) }],
  ["fcntl", 1, { stdin: new Uint8Array(9) }],
  ["pidfd_open", 1, {}],
  ["poll", 1, {}],
  ["poll", 2, {}],
  ["read", 1, {}],
  ["read", 2, {}],
  ["write", 1, { stdin: new Uint8Array(9) }], // the program would mistake a part of its input for the whole
] as const)("%s, the %d. time: where it fails nothing is left, no descriptor and no process", (name, nth, options) => {
  const before = descriptors()
  failing(name, nth, () => {
    const program = {
      path: "/bin/sh",
      args: ["-c", "echo x; echo x >&2; exec sleep infinity"],
      env: {},
      outputLimit: 9,
    }
    expect(() => spawn({ ...program, ...options })).toThrow("Too many open files (EMFILE)")
  })
  expect({ leaked: descriptors() - before, childless: isChildless() }).toEqual({ leaked: 0, childless: true })
})

test("a signal that interrupts poll, read or write is not an error", () => {
  const interrupted: (keyof Engine)[] = ["poll", "read", "write"]
  for (const name of interrupted) {
    const calls = engine as unknown as Record<string, (...values: unknown[]) => number>
    const real = calls[name] as (...values: unknown[]) => number
    let count = 0
    calls[name] = (...values) => (++count % 2 === 1 ? -4 : real(...values)) // EINTR
    try {
      const ended = spawn({ path: "/bin/cat", env: {}, stdin: new Uint8Array(300_000), outputLimit: 1 << 20 })
      expect({ name, exitCode: ended.exitCode, length: ended.stdout.length }).toEqual({
        name,
        exitCode: 0,
        length: 300_000,
      })
    } finally {
      calls[name] = real
    }
  }
})

test.each([
  ["open", 'open "/dev/null"', {}],
  ["pipe2", "pipe2", {}],
  ["fcntl", "fcntl O_NONBLOCK", { stdin: new Uint8Array(9) }],
  ["pidfd_open", "pidfd_open", {}],
  ["poll", "poll 4 descriptors", {}],
  ["read", "read the output of a program", {}],
  ["write", "write the input of a program", { stdin: new Uint8Array(9) }],
  ["wait4", "wait4", {}],
] as const)("where %s fails, the error says: %s", (name, what, options) => {
  failing(name, 1, () => {
    const program = { path: "/bin/sh", args: ["-c", "echo x"], env: {}, outputLimit: 9, ...options }
    expect(() => spawn(program)).toThrow(`${what}: Too many open files (EMFILE)`)
  })
  expect(isChildless()).toBe(true)
})
