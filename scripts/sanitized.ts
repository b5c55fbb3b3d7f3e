/** Builds the executables with sanitizers, for `npm run test:sanitized`. */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync } from "node:fs"
import { join } from "node:path"
import { sanitized } from "./flavours.ts"
import { buildEach, buildTool, type Flavour } from "./native.ts"

const root = join(import.meta.dir, "..")
const directory = join(root, "dist/sanitized")
const reports = join(directory, "reports")

export const sanitizedPlugins = join(directory, "bin")

/** The directories that programs with sanitizers need if they run in another root. */
export const neededDirectories: readonly string[] = ["/usr", "/lib", "/lib64", directory, join(root, "host")]

/** Returns the flavor of executables with sanitizers, whose reports `readReports` finds. */
export function sanitizedFlavour(): Flavour {
  mkdirSync(reports, { recursive: true })
  return sanitized(join(reports, "report"))
}

/** Removes earlier reports. Builds the plugins with sanitizers in a directory, and the tool beside that directory. */
export async function buildSanitized(): Promise<void> {
  rmSync(directory, { recursive: true, force: true })
  await buildEach(sanitizedPlugins, sanitizedFlavour(), "bytecode")
  await buildTool(join(directory, "cni"), sanitizedFlavour(), "bytecode")
}

export function readReports(): string[] {
  if (!existsSync(reports)) return [] // nothing has been built with sanitizers
  return readdirSync(reports).map((file) => readFileSync(join(reports, file), "utf8"))
}

if (import.meta.main) await buildSanitized()
