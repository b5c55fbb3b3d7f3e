import { afterAll, beforeAll, expect } from "bun:test"
import { join } from "node:path"
import { CProgram, fail, type PluginOutput } from "../lab/mod.ts"

let program: CProgram | undefined

/** Builds the program `between` (`between.c`) for the tests of a file. Each file that uses `between` must call it. */
export function useBetween(): void {
  beforeAll(async () => {
    program = await CProgram.build(join(import.meta.dir, "between.c"))
  })
  afterAll(() => program?.[Symbol.asyncDispose]())
}

/** The offset of `between`'s exit code if the program ended before its n-th system call. */
export const endedBefore = 64

/** Returns a command line for `PluginCall.under` that acts between the system calls of the program after it. */
export function between(at: number, how: string, ...words: readonly string[]): string[] {
  return [program?.path ?? "", String(at), how, ...words, "--"]
}

/**
 * Throws unless a call succeeded, or failed with one error that names the failed action. An error in our own code also
 * throws.
 */
export async function expectClean(output: PluginOutput): Promise<void> {
  if (output.exitCode === 0) return
  const { msg } = await fail(Promise.resolve(output))
  expect(msg).toMatch(/^(Cannot|Check|required|[a-z-]+: [A-Z]|[A-Z]\w+)/)
  expect(output.stderr).not.toMatch(/TypeError|RangeError|ReferenceError/)
}
