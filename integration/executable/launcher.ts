import { join } from "node:path"
import { calls, reserve } from "../../host/seccomp.json"
import { CProgram } from "../lab/mod.ts"

/** The system calls that a plugin may make on amd64. */
export const allowedCalls: readonly string[] = [...calls.amd64, ...Object.keys(reserve)].sort()

/**
 * The program `launcher`, which runs others under limits, `launcher.c`. Its filter is that of `host/seccomp.json`, or
 * has `allowed` alone.
 */
export function buildLauncher(allowed: readonly string[] = allowedCalls): Promise<CProgram> {
  return CProgram.build(join(import.meta.dir, "launcher.c"), [
    `-DCALLS=${allowed.map((name) => `SYS_${name}`).join(",")}`,
    `-DNAMES=${allowed.map((name) => `"${name}"`).join(",")}`,
  ])
}

/** How long a test may take to build an executable: the engine is compiled once for each way of doing so. */
export const buildingMs = 1_800_000
