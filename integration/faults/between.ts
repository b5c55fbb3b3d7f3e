import { afterAll, beforeAll, expect } from "bun:test"
import { join } from "node:path"
import { CProgram, fail, type PluginOutput } from "../lab/mod.ts"

let program: CProgram | undefined

/** Builds the program `between`, `between.c`, for the tests of a file; to be called by each file that uses `between`. */
export function useBetween(): void {
  beforeAll(async () => {
    program = await CProgram.build(join(import.meta.dir, "between.c"))
  })
  afterAll(() => program?.[Symbol.asyncDispose]())
}

/** What `between` adds to the exit code of a program that ended before its n-th system call. */
export const endedBefore = 64

/** A command line, for `PluginCall.under`, that does something between the system calls of the program that follows it. */
export function between(at: number, how: string, ...words: readonly string[]): string[] {
  return [program?.path ?? "", String(at), how, ...words, "--"]
}

/** Throws unless a call has succeeded, or failed with one error that says what could not be done: nothing that broke in our own code. */
export async function expectClean(output: PluginOutput): Promise<void> {
  if (output.exitCode === 0) return
  const { msg } = await fail(Promise.resolve(output))
  expect(msg).toMatch(/^(Cannot|Check|required|[a-z-]+: [A-Z]|[A-Z]\w+)/)
  expect(output.stderr).not.toMatch(/TypeError|RangeError|ReferenceError/)
}
