import { join } from "node:path"
import { calls, reserve } from "../../host/seccomp.json"
import { CProgram } from "../lab/mod.ts"

/** The system calls that a plugin may make on amd64. */
export const allowedCalls: readonly string[] = [...calls.amd64, ...Object.keys(reserve)].sort()

/**
 * The program `launcher`, which runs programs under limits, `launcher.c`. Its filter is `host/seccomp.json`, or
 * `allowed` alone.
 */
export function buildLauncher(allowed: readonly string[] = allowedCalls): Promise<CProgram> {
  return CProgram.build(join(import.meta.dir, "launcher.c"), [
    `-DCALLS=${allowed.map((name) => `SYS_${name}`).join(",")}`,
    `-DNAMES=${allowed.map((name) => `"${name}"`).join(",")}`,
  ])
}

/** The time limit for a test that builds an executable: the engine is compiled once for each set of flags. */
export const buildingMs = 1_800_000
