import { join } from "node:path"
import { calls, reserve } from "../../host/seccomp.json"
import { CProgram } from "../lab/mod.ts"

/** The system calls that a plugin may make on amd64. */
export const allowedCalls: readonly string[] = [...calls.amd64, ...Object.keys(reserve)].sort()

/**
 * Builds `launcher.c`, which runs programs under limits. The seccomp filter of the launcher permits only the system
 * calls in `allowed`, by default those of `host/seccomp.json`.
 */
export function buildLauncher(allowed: readonly string[] = allowedCalls): Promise<CProgram> {
  return CProgram.build(join(import.meta.dir, "launcher.c"), [
    `-DCALLS=${allowed.map((name) => `SYS_${name}`).join(",")}`,
    `-DNAMES=${allowed.map((name) => `"${name}"`).join(",")}`,
  ])
}

/**
 * The time limit in milliseconds of a test that builds executables, because it compiles the engine for each set of
 * flags.
 */
export const buildingMs = 1_800_000
