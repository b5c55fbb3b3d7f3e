import { argumentAnswers } from "./contract-arguments.fixture.ts"
import { fileCases } from "./contract-files.fixture.ts"
import { jobCases } from "./contract-jobs.fixture.ts"
import { nameCases } from "./contract-names.fixture.ts"
import { processCases } from "./contract-processes.fixture.ts"
import { serviceCases } from "./contract-services.fixture.ts"
import { privilegedCases, socketCases } from "./contract-sockets.fixture.ts"
import { decodedNoise, textCases } from "./contract-text.fixture.ts"
import type { Engine } from "./engine.ts"
import { engine } from "./mod.ts"

/** The result of a case: a plain value, so that the results of two back ends can be compared as JSON. */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [name: string]: Json }

export interface Case {
  readonly name: string
  readonly run: Run
  readonly expected: Json
}

/** An action that uses only the engine. `at` returns the path of a name in the case's own directory. */
export type Run = (engine: Engine, at: (name: string) => string) => Json

export type Cases = readonly (readonly [name: string, run: Run, expected: Json])[]

/** The cases that do not need root. */
export const cases: readonly Case[] = asCases([
  ...fileCases,
  ...nameCases,
  ...socketCases,
  ...serviceCases,
  ...processCases,
  ...textCases,
])

export const rootCases: readonly Case[] = asCases(privilegedCases)

function asCases(table: Cases): Case[] {
  return table.map(([name, run, expected]) => ({ name, run, expected }))
}

/** Runs cases on an engine, each with its own directory below `directory`, and returns the results. */
export function answer(engine: Engine, list: readonly Case[], directory: string): Json[] {
  return list.map(({ run }, index) => {
    const own = `${directory}/${index}`
    engine.mkdirat(own, 0o700)
    return attempt(() => run(engine, (name) => `${own}/${name}`))
  })
}

/** Returns the result of a function, or the type and message of its exception. */
export function attempt(work: () => Json): Json {
  try {
    return work()
  } catch (error) {
    return error instanceof Error ? `${error.name}: ${error.message}` : "something else than an error was thrown"
  }
}

/** Runs cases on the current engine and prints the results as JSON: `cases DIRECTORY`, `arguments`, … */
export function run(): never {
  const [, task = "", ...rest] = engine.arguments()
  const answers = tasks[task]?.(rest)
  const bytes = engine.encodeUtf8(JSON.stringify(answers === undefined ? null : answers))
  for (let done = 0; done < bytes.length; ) {
    const written = engine.write(1, bytes.subarray(done))
    if (written < 0) engine.exit(100)
    done += written
  }
  return engine.exit(0)
}

const tasks: Readonly<Record<string, (rest: string[]) => Json>> = {
  cases: ([directory = ""]) => answer(engine, cases, directory),
  root: ([directory = ""]) => answer(engine, rootCases, directory),
  jobs: () => jobCases.map(([, run]) => attempt(() => run(engine))),
  arguments: () => argumentAnswers(engine),
  noise: () => decodedNoise(engine),
  environment: () => engine.environment(),
  "command-line": () => engine.arguments().slice(1),
  clock: () => engine.monotonicMs(),
  exit: ([status = ""]) => engine.exit(Number(status)),
}

if (import.meta.main) run()
