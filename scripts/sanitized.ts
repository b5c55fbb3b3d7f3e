/** The build with sanitizers, `npm run test:sanitized`. */
import { copyFileSync, mkdirSync, readdirSync, readFileSync, rmSync } from "node:fs"
import { join } from "node:path"
import { namePlugins } from "./build.ts"
import { sanitized } from "./flavours.ts"
import { buildFromBytecode } from "./native.ts"

const root = join(import.meta.dir, "..")
const directory = join(root, "dist/sanitized")
const reports = join(directory, "reports")

/** The plugins with sanitizers, by name, and the fuzzed program in `fuzz`, under the names of the IPAM plugins that it has. */
export const sanitizedPlugins = join(directory, "bin")
export const fuzzDirectory = join(directory, "fuzz")
export const fuzzProgram = join(fuzzDirectory, "fuzz-entry")

/** What has to be seen in another root by programs with sanitizers. */
export const neededDirectories: readonly string[] = ["/usr", "/lib", "/lib64", directory, join(root, "host")]

/** Builds all of them, and forgets earlier reports. */
export async function buildSanitized(): Promise<void> {
  rmSync(directory, { recursive: true, force: true })
  for (const each of [reports, fuzzDirectory]) mkdirSync(each, { recursive: true })
  const flavour = sanitized(join(reports, "report"))
  await buildFromBytecode(join(directory, "plugins"), flavour)
  namePlugins(join(directory, "plugins"), sanitizedPlugins)
  const main = join(root, "integration/sanitized/fuzz-entry.fixture.ts")
  await buildFromBytecode(fuzzProgram, flavour, [{ name: "fuzz-entry", main }])
  for (const name of ["host-local", "static"]) copyFileSync(fuzzProgram, join(fuzzDirectory, name))
}

/** What the sanitizers have found. */
export function readReports(): string[] {
  return readdirSync(reports).map((file) => readFileSync(join(reports, file), "utf8"))
}

if (import.meta.main) await buildSanitized()
