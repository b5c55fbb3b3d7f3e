import { readFileSync } from "node:fs"
import { join } from "node:path"
import { applyChange, type Change } from "./operators.ts"
import type { TestsBySource } from "./room.ts"
import type { Sandbox } from "./sandbox.ts"

/** A source with one mistake in it. */
export interface Mutant {
  readonly file: string
  readonly change: Change
}

/** Who noticed a mistake; nobody when it survived. */
export type Verdict = "unit" | "types" | "integration" | "nobody"

/** How long the unit tests of one step may take; an endless loop ends here. */
const unitMs = 60_000

/** Lets the tests look at a mistake, those that are likely to notice it first. */
export async function judge(
  root: string,
  sandbox: Sandbox,
  tests: TestsBySource,
  { file, change }: Mutant,
  integration: readonly string[],
): Promise<Verdict> {
  const source = readFileSync(join(root, file), "utf8")
  const [beside, room, elsewhere] = tests.of(file)
  const notice = async (files: readonly string[], testMs = 10_000, allMs = unitMs) =>
    files.length > 0 &&
    (
      await sandbox.run(
        [process.execPath, "test", "--bail", `--timeout=${testMs}`, ...files.map((f) => `./${f}`)],
        allMs,
      )
    ).exitCode !== 0
  await sandbox.write(file, applyChange(source, change))
  try {
    if ((await notice(beside)) || (await notice(room))) return "unit"
    if (await refusedByTypes(sandbox, file)) return "types"
    if (await notice(elsewhere, 20_000, 4 * unitMs)) return "unit"
    if (integration.length === 0) return "nobody"
    const built = await sandbox.run([process.execPath, "scripts/build.ts", "--bytecode"], 5 * unitMs)
    if (built.exitCode !== 0 || (await notice(integration, 120_000, 10 * unitMs))) return "integration"
    return "nobody"
  } finally {
    await sandbox.write(file, source)
  }
}

/** Asks the compiler about the file and what it imports, which is part of the gate. */
async function refusedByTypes(sandbox: Sandbox, file: string): Promise<boolean> {
  const config = "tsconfig.mutant.json"
  await sandbox.write(config, JSON.stringify({ extends: "./tsconfig.json", include: [], files: [file] }))
  return (await sandbox.run(["node_modules/.bin/tsc", "-p", config, "--noEmit"], unitMs)).exitCode !== 0
}
