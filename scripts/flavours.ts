/** Flavors of executables that only tests use. */
import { join } from "node:path"
import type { Flavour } from "./native.ts"

const sanitizers = ["-fsanitize=address,undefined", "-fno-omit-frame-pointer", "-g", "-O1"]

/**
 * Executables with AddressSanitizer and UndefinedBehaviorSanitizer, started from bytecode. They use glibc, because
 * Debian's musl has no sanitizers, and malloc(3), so that every block is checked. A report ends the process and is
 * written to a file whose name begins with `reports`.
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
 * Executables in which an allocation fails. `FAIL_ALLOCATION=7` fails the seventh allocation, `7+` the seventh and all
 * later ones. `memory.c` allocates each block of the engine by itself, as with sanitizers.
 */
export const failing: Flavour = {
  memory: "integration/executable/failing-memory.c",
  engineFlags: ["-D__SANITIZE_ADDRESS__", "-O1"], // compiles in half the time
}
