import { encodeUtf8 } from "../../pkg/engine/mod.ts"
import { findProgram, readEnvironment, type Spawned, spawn } from "../../pkg/libc/mod.ts"

/** The maximum output of a program in bytes. Large nodes have rule sets of several megabytes. */
const OUTPUT_MAX = 256 << 20

/** Runs a program in PATH until it exits. Returns undefined if it is not installed. Throws `SyscallError`. */
export function runByName(name: string, args: readonly string[], stdin = ""): Spawned | undefined {
  const env = readEnvironment()
  const path = findProgram(name, env.PATH)
  return path === undefined ? undefined : spawn({ path, args, env, stdin: encodeUtf8(stdin), outputLimit: OUTPUT_MAX })
}
