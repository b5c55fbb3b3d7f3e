import { mkdirSync } from "node:fs"
import { basename, join } from "node:path"
import { buildStation, compileProgram } from "../integration/lab/mod.ts"

const directory = join(import.meta.dir, "../dist/bench")

/** The benchmark's own programs. They are in C and static, so that they start as fast as possible. */
export const programs = {
  /** Makes only a chain's changes to the kernel, see floor.c. */
  floor: join(directory, "floor"),
  empty: join(directory, "empty"),
  /** Keeps processors or the disk busy, see load.c. */
  load: join(directory, "load"),
  /** Client and server of the rows about the data path, see traffic.c. */
  traffic: join(directory, "traffic"),
} as const

/** Compiles the benchmark's programs and the program of the lab's station. */
export async function buildPrograms(): Promise<void> {
  mkdirSync(directory, { recursive: true })
  await buildStation()
  for (const out of Object.values(programs)) await compileProgram(join(import.meta.dir, `${basename(out)}.c`), out)
}
