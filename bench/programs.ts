import { mkdirSync } from "node:fs"
import { basename, join } from "node:path"
import { mustRun } from "../integration/mod.ts"

const directory = join(import.meta.dir, "../dist/bench")

/** The benchmark's own programs: static C, so that they start as fast as anything can. */
export const programs = {
  /** Runs what is measured, see launcher.c. */
  launcher: join(directory, "launcher"),
  /** Makes a chain's changes to the kernel and nothing else, see floor.c. */
  floor: join(directory, "floor"),
  /** Does nothing. */
  empty: join(directory, "empty"),
} as const

/** Kernel headers, which musl's compiler does not look for by itself. */
const headers = ["/usr/include", `/usr/include/${process.arch === "arm64" ? "aarch64" : "x86_64"}-linux-gnu`]

/** Compiles the programs. */
export async function buildPrograms(): Promise<void> {
  mkdirSync(directory, { recursive: true })
  const flags = ["-std=gnu17", "-O2", "-static", "-s", "-Wall", "-Wextra", "-Wconversion", "-Werror"]
  const include = headers.flatMap((path) => ["-idirafter", path])
  for (const out of Object.values(programs)) {
    await mustRun(["musl-gcc", ...flags, ...include, "-o", out, join(import.meta.dir, `${basename(out)}.c`)])
  }
}
