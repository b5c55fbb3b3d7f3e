import { readFileSync } from "node:fs"
import { join } from "node:path"
import { patient } from "../../integration/lab/mod.ts"
import { applyChange, type Change } from "./operators.ts"
import type { TestsBySource } from "./room.ts"
import type { Ended, Sandbox } from "./sandbox.ts"

/** A source with one mistake in it. */
export interface Mutant {
  readonly file: string
  readonly change: Change
}

/** What noticed a mistake, "none" when it survived; and by what. */
export interface Verdict {
  readonly by: "unit" | "types" | "integration" | "none"
  readonly sign: string
  /** What failed once and not again: it has noticed nothing, and is a test to be mended. */
  readonly flaky: readonly string[]
}

/** Where the tests run. */
type Place = Pick<Sandbox, "write" | "run">

/** How long one unit test may take, and those of one step; an endless loop ends here. */
const testMs = patient(20_000)
const unitMs = patient(120_000)

/**
 * Lets the tests look at a mistake, those that are likely to notice it first. They have noticed it when they fail
 * twice.
 */
export async function judge(
  root: string,
  sandbox: Place,
  tests: Pick<TestsBySource, "of">,
  { file, change }: Mutant,
  integration: readonly string[],
): Promise<Verdict> {
  const source = readFileSync(join(root, file), "utf8")
  const [beside, room, elsewhere, slow, kernel] = tests.of(file)
  const flaky: string[] = []
  const notice = async (by: Verdict["by"], files: readonly string[], eachMs: number, allMs: number) => {
    if (files.length === 0) return undefined
    const command = [process.execPath, "test", "--bail", `--timeout=${eachMs}`, ...files.map((name) => `./${name}`)]
    const failure = async () => {
      const ended = await sandbox.run(command, allMs)
      if (havePassed(ended)) return undefined
      return ended.exitCode === undefined ? "its time was over" : signIn(ended.output)
    }
    const sign = await failure()
    if (sign === undefined) return undefined
    if ((await failure()) !== undefined) return { by, sign }
    flaky.push(sign)
    return undefined
  }
  await sandbox.write(file, applyChange(source, change))
  try {
    const noticed =
      (await notice("unit", beside, testMs, unitMs)) ??
      (await notice("unit", room, testMs, unitMs)) ??
      (await refusedByTypes(sandbox, file)) ??
      (await notice("unit", elsewhere, testMs, unitMs)) ??
      (await notice("unit", slow, testMs, 2 * unitMs)) ??
      (await notice("integration", kernel, 3 * testMs, 2 * unitMs)) ??
      (integration.length > 0 && !(await builds(sandbox))
        ? { by: "integration" as const, sign: "the build" }
        : undefined) ??
      (await notice("integration", integration, 6 * testMs, 10 * unitMs))
    return { ...(noticed ?? { by: "none", sign: "" }), flaky }
  } finally {
    await sandbox.write(file, source)
  }
}

/** Whether tests have run to their end and none has failed: a mistake may end their process early, with success. */
export function havePassed({ exitCode, output }: Ended): boolean {
  return exitCode === 0 && /^Ran \d+ tests? across \d+ files?\./m.test(output)
}

/** The first test that failed, or the last that was printed. */
function signIn(output: string): string {
  const lines = output.split("\n").filter((line) => line.trim() !== "")
  return lines.find((line) => line.startsWith("(fail)")) ?? lines.at(-1) ?? ""
}

/** Builds the plugins of the sandbox's sources. */
export async function builds(sandbox: Place): Promise<boolean> {
  const build = `import { buildPlugins } from "./scripts/build.ts"
    await buildPlugins("dist/bin", undefined, "bytecode")`
  return (await sandbox.run([process.execPath, "-e", build], unitMs)).exitCode === 0
}

/** Asks the compiler about files and what they import, which is part of the gate; returns what it says against them. */
export async function refusalByTypes(sandbox: Place, files: readonly string[]): Promise<string | undefined> {
  const config = "tsconfig.mutant.json"
  await sandbox.write(config, JSON.stringify({ extends: "./tsconfig.json", include: ["**/*.d.ts"], files }))
  const { exitCode, output } = await sandbox.run(["node_modules/.bin/tsc", "-p", config, "--noEmit"], unitMs)
  return exitCode === 0 ? undefined : output
}

async function refusedByTypes(sandbox: Place, file: string): Promise<Omit<Verdict, "flaky"> | undefined> {
  const refusal = await refusalByTypes(sandbox, [file])
  return refusal === undefined ? undefined : { by: "types", sign: refusal.split("\n", 1)[0] ?? "" }
}
