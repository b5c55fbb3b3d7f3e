/** The executables that only tests have. */
import { join } from "node:path"
import type { Flavour } from "./native.ts"

const sanitizers = ["-fsanitize=address,undefined", "-fno-omit-frame-pointer", "-g", "-O1"]

/**
 * With AddressSanitizer and UndefinedBehaviorSanitizer, to be started from bytecode: with glibc, since Debian's musl has
 * neither, and with malloc(3), so that each block is watched. A report ends the process, and is a file whose name begins
 * with `reports`.
 */
export const sanitized = (reports: string): Flavour => ({
  compiler: "gcc",
  flags: [
    ...sanitizers,
    `-DREPORTS=${JSON.stringify(reports)}`,
    `-DSUPPRESSIONS=${JSON.stringify(join(import.meta.dir, "../integration/sanitized/ubsan.txt"))}`,
  ],
  engineFlags: sanitizers,
  memory: "integration/sanitized/memory.c",
})

/**
 * The environment says which allocation fails: `FAIL_ALLOCATION=7` the seventh, `7+` that and all after it. Each block of the
 * engine's comes by `memory.c`, one by one, which is what the engine does when it believes that it is watched.
 */
export const failing: Flavour = {
  memory: "integration/executable/failing-memory.c",
  engineFlags: ["-D__SANITIZE_ADDRESS__", "-O1"], // is compiled in half the time
}
