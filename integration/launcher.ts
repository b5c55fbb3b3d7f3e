import { calls } from "../host/seccomp.json"
import { CProgram } from "./c-program.ts"

/** The program `launcher`, which runs others under limits, `launcher.c`. Its filter is that of `host/seccomp.json`. */
export function buildLauncher(): Promise<CProgram> {
  return CProgram.build("launcher.c", [`-DCALLS=${calls.map((name) => `SYS_${name}`).join(",")}`])
}
