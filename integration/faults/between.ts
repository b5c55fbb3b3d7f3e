import { afterAll, beforeAll, expect } from "bun:test"
import { join } from "node:path"
import { CProgram, fail, type PluginOutput } from "../lab/mod.ts"

let program: CProgram | undefined

/** Builds `between.c` for the tests of a file. Each test file that uses `between` must call this function. */
export function useBetween(): void {
  beforeAll(async () => {
    program = await CProgram.build(join(import.meta.dir, "between.c"))
  })
  afterAll(() => program?.[Symbol.asyncDispose]())
}

/** The number that `between.c` adds to its exit code if the plugin ended before system call `at`. */
export const endedBefore = 64

/** Returns a command for `PluginCall.under` that runs a plugin and acts before its system calls; see between.c. */
export function between(at: number, how: string, ...words: readonly string[]): string[] {
  return [program?.path ?? "", String(at), how, ...words, "--"]
}

/**
 * Throws unless the plugin call succeeded, or failed with one error that names the failed action. A JavaScript error,
 * such as a TypeError, is not accepted.
 */
export async function expectClean(output: PluginOutput): Promise<void> {
  if (output.exitCode === 0) return
  const { msg } = await fail(Promise.resolve(output))
  expect(msg).toMatch(/^(Cannot|Check|required|[a-z-]+: [A-Z]|[A-Z]\w+)/)
  expect(output.stderr).not.toMatch(/TypeError|RangeError|ReferenceError/)
}
