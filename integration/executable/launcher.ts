import { join } from "node:path"
import { calls } from "../../host/seccomp.json"
import { CProgram } from "../lab/mod.ts"

/** The program `launcher`, which runs others under limits, `launcher.c`. Its filter is that of `host/seccomp.json`. */
export function buildLauncher(): Promise<CProgram> {
  return CProgram.build(join(import.meta.dir, "launcher.c"), [
    `-DCALLS=${calls.map((name) => `SYS_${name}`).join(",")}`,
    `-DNAMES=${calls.map((name) => `"${name}"`).join(",")}`,
  ])
}
