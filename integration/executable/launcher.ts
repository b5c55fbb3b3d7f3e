import { join } from "node:path"
import { calls, reserve } from "../../host/seccomp.json"
import { CProgram } from "../lab/mod.ts"

/** The system calls that a plugin may make on amd64. */
export const allowedCalls: readonly string[] = [...calls.amd64, ...Object.keys(reserve)].sort()

/**
 * Builds `launcher.c`, which runs programs under limits. Its seccomp filter allows the system calls of
 * `host/seccomp.json`, or only `allowed`.
 */
export function buildLauncher(allowed: readonly string[] = allowedCalls): Promise<CProgram> {
  return CProgram.build(join(import.meta.dir, "launcher.c"), [
    `-DCALLS=${allowed.map((name) => `SYS_${name}`).join(",")}`,
    `-DNAMES=${allowed.map((name) => `"${name}"`).join(",")}`,
  ])
}

/**
 * The time limit of a test that builds executables, in milliseconds. The engine is compiled once for each set of flags.
 */
export const buildingMs = 1_800_000
