/** Executables that only tests use. */
import { join } from "node:path"
import type { Flavour } from "./native.ts"

const sanitizers = ["-fsanitize=address,undefined", "-fno-omit-frame-pointer", "-g", "-O1"]

/**
 * With AddressSanitizer and UndefinedBehaviorSanitizer, started from bytecode: with glibc, since Debian's musl has
 * neither, and with malloc(3), so that each block is watched. A report ends the process, and is a file whose name
 * begins with `reports`.
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
 * The environment selects the allocation that fails: `FAIL_ALLOCATION=7` the seventh, `7+` the seventh and all after
 * it. Each block of the engine comes from `memory.c` one by one, as if the engine were watched.
 */
export const failing: Flavour = {
  memory: "integration/executable/failing-memory.c",
  engineFlags: ["-D__SANITIZE_ADDRESS__", "-O1"], // compiles in half the time
}
