/**
 * Tries the tests: makes small mistakes in the sources, one at a time, and looks whether a test notices.
 *
 *   npm run test:mutants                                  all rooms of pkg, plugins, ipam and meta: hours; `tools` and `cmd` by name
 *   npm run test:mutants -- pkg/nftables --sample 60      60 mistakes in one room; a file can be named, too
 *   npm run test:mutants -- pkg/nftables --integration    what the unit tests let pass is built and run in namespaces
 *   npm run test:mutants -- pkg/nftables --operator swapped   only the kinds of mistakes that have this word, see mutants/operators.ts
 *   npm run test:mutants -- pkg/nftables --lanes 1        one at a time
 *   npm run test:mutants -- pkg/nftables --verbose        tells by what the others were noticed
 *
 * A test has noticed a mistake when it fails twice; one that fails once is told. Which mistakes are made is chosen by CNI_TEST_SEED;
 * CNI_TEST_PATIENCE stretches the time that tests have. What survives is
 * printed as scripts/mutants/equivalent/*.txt has it, where a mistake that makes no difference is written down with its reason.
 * Ends with one row for each room.
 */
import { readFileSync } from "node:fs"
import { availableParallelism } from "node:os"
import { join } from "node:path"
import { parseArgs } from "node:util"
import { Chance, patient, seed } from "../integration/lab/mod.ts"
import { differenceOf, type Equivalent, format, readEquivalents } from "./mutants/equivalent.ts"
import { integrationOf } from "./mutants/integration.ts"
import { builds, judge, type Mutant, refusalByTypes, type Verdict } from "./mutants/judge.ts"
import { applyChange, changesOf } from "./mutants/operators.ts"
import { sourcesOf, TestsBySource } from "./mutants/room.ts"
import { Sandbox } from "./mutants/sandbox.ts"

const root = join(import.meta.dir, "..")

/** As many of the values as are asked for, by chance; all when there are fewer. */
function choose<T>(values: readonly T[], count: number, chance: Chance): T[] {
  const left = [...values]
  const chosen: T[] = []
  while (chosen.length < count && left.length > 0) chosen.push(...left.splice(chance.below(left.length), 1))
  return chosen
}

function mutantsOf(room: string): Mutant[] {
  return sourcesOf(root, room).flatMap((file) =>
    changesOf(readFileSync(join(root, file), "utf8")).map((change) => ({ file, change })),
  )
}

function formatMutant({ file, change }: Mutant): string {
  const source = readFileSync(join(root, file), "utf8")
  return format(differenceOf(file, source, applyChange(source, change)))
}

/** Tries the mistakes of one room; answers its row. */
async function tryRoom(room: string, options: Options): Promise<string> {
  const all = mutantsOf(room).filter(({ change }) => change.operator.includes(options.operator))
  const asked = options.sample ?? Math.max(60, Math.ceil(all.length / 12))
  const sample = choose(all, asked, new Chance(seed))
  const waiting = sample.filter((mutant) => !options.equivalent.has(formatMutant(mutant)))
  const equivalent = sample.length - waiting.length
  const integration = options.integration ? integrationOf(room) : []
  const count: Record<Verdict["by"], number> = { unit: 0, types: 0, integration: 0, none: 0 }
  await Promise.all(
    options.sandboxes.map(async (sandbox) => {
      for (let mutant = waiting.shift(); mutant !== undefined; mutant = waiting.shift()) {
        const { by, sign, flaky } = await judge(root, sandbox, options.tests, mutant, integration)
        count[by]++
        for (const sign of flaky) console.log(`failed once and not again, so it has noticed nothing: ${sign}\n`)
        if (by === "none") console.log(`${formatMutant(mutant)}\n`)
        else if (options.verbose) console.log(`${formatMutant(mutant)}\n= noticed, ${by}: ${sign}\n`)
      }
    }),
  )
  const share = (100 * count.none) / Math.max(1, sample.length - equivalent)
  const noticed = [count.unit, count.types, count.integration]
  return `| ${[room, all.length, sample.length, ...noticed, equivalent, count.none, `${share.toFixed(1)} %`].join(" | ")} |`
}

interface Options {
  readonly sample: number | undefined
  readonly operator: string
  readonly integration: boolean
  readonly verbose: boolean
  readonly sandboxes: readonly Sandbox[]
  readonly tests: TestsBySource
  readonly equivalent: ReadonlySet<string>
}

/** Asks all that will be asked, compiler and tests, without a mistake: what fails then would notice everything. */
async function requireGreen(
  sandbox: Sandbox,
  sources: readonly string[],
  unit: ReadonlySet<string>,
  built: ReadonlySet<string>,
): Promise<void> {
  const refusal = await refusalByTypes(sandbox, sources)
  if (refusal !== undefined)
    throw new Error(`Cannot try the tests: the compiler refuses them without a mistake\n${refusal}`)
  if (built.size > 0 && !(await builds(sandbox)))
    throw new Error("Cannot try the tests: the build fails without a mistake")
  for (const files of [unit, built]) {
    if (files.size === 0) continue
    const command = [
      process.execPath,
      "test",
      `--timeout=${patient(120_000)}`,
      ...[...files].map((file) => `./${file}`),
    ]
    const { exitCode, output } = await sandbox.run(command, patient(900_000))
    if (exitCode !== 0) throw new Error(`Cannot try the tests: they fail without a mistake\n${output.slice(-4000)}`)
  }
}

if (import.meta.main) {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      sample: { type: "string" },
      operator: { type: "string", default: "" },
      lanes: { type: "string", default: String(availableParallelism()) },
      integration: { type: "boolean", default: false },
      verbose: { type: "boolean", default: false },
    },
  })
  const everywhere = [...new Bun.Glob("{pkg,plugins,ipam,meta}/*").scanSync({ cwd: root, onlyFiles: false })]
  const rooms = positionals.length > 0 ? positionals : everywhere.filter((room) => !room.endsWith(".ts")).sort()
  const sandboxes = await Sandbox.create(root, Number(values.lanes))
  const tests = new TestsBySource(root)
  const sources = rooms.flatMap((room) => sourcesOf(root, room))
  const unit = sources.flatMap((source) => tests.of(source).flat())
  const built = values.integration ? rooms.flatMap(integrationOf) : []
  await requireGreen(sandboxes[0] as Sandbox, sources, new Set(unit), new Set(built))
  const written: Equivalent[] = readEquivalents(join(import.meta.dir, "mutants/equivalent"))
  const options: Options = {
    sample: values.sample === undefined ? undefined : Number(values.sample),
    operator: values.operator,
    integration: values.integration,
    verbose: values.verbose,
    sandboxes,
    tests,
    equivalent: new Set(written.map(format)),
  }
  const rows: string[] = []
  for (const room of rooms) {
    rows.push(await tryRoom(room, options))
    console.log(`${rows.at(-1)}\n`)
  }
  console.log(rows.join("\n"))
}
