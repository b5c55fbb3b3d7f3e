/**
 * Compares our executables with Debian's Go plugins and with the kernel alone. Needs root.
 *
 *   npm run bench -- [--only REGEX] [--runs N] [--seconds N] [--peer DIR] [--json] [--write]
 *
 * A row takes at most `--runs` runs (300 by default) and `--seconds` seconds (5 by default); if a verdict is unsure, up
 * to four times as many. `--peer` adds the plugins of a directory, for example a newer release of the reference
 * plugins. `--write` writes docs/figures.md and rows.csv.
 */
import { parseArgs } from "node:util"
import { pluginNames } from "../suite/plugins.ts"
import { type Measurement, measure, rowName } from "./measure.ts"
import { buildPrograms } from "./programs.ts"
import { formatTables } from "./report.ts"
import { machineFacts, writeResults } from "./results.ts"
import { allScenarios, leftOutHere } from "./scenarios.ts"
import { runsForP99 } from "./statistics.ts"
import { hasPlugin, originOf, prepareSuites, type Suite, sizeOf } from "./suites.ts"
import { isUnsure, judge } from "./verdicts.ts"

async function suiteFacts(suites: readonly Suite[]): Promise<string[]> {
  return Promise.all(
    suites.map(async (suite) => {
      const names = pluginNames.filter((name) => suites.every((each) => hasPlugin(each, name)))
      const { bridge, all } = sizeOf(suite, names)
      const megabytes = (bytes: number) => `${(bytes / 2 ** 20).toFixed(1)} MB`
      const title = suite.name === "ours" ? "ours" : `${suite.name}: the reference plugins of ${await originOf(suite)}`
      return `${title}, bridge ${megabytes(bridge)}, files of ${names.length} plugins ${megabytes(all)}`
    }),
  )
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      only: { type: "string", default: "" },
      runs: { type: "string", default: String(runsForP99) },
      seconds: { type: "string", default: "5" },
      peer: { type: "string" },
      json: { type: "boolean", default: false },
      write: { type: "boolean", default: false },
    },
  })
  const limits = { runs: Number(values.runs), seconds: Number(values.seconds) }
  const { runs, seconds } = limits
  if (!Number.isInteger(runs) || runs < 1) throw new Error(`Cannot run "${values.runs}" times: expected 1 or more`)
  if (!(seconds > 0)) throw new Error(`Cannot run for "${values.seconds}" seconds: expected more than 0`)
  if (process.getuid?.() !== 0) throw new Error("The benchmark makes network namespaces, which needs root")
  const only = new RegExp(values.only)
  const suites = prepareSuites(values.peer)
  const all = allScenarios(suites)
  const wanted = all.filter((scenario) => scenario.steps.some((step) => only.test(rowName(scenario, step))))
  if (wanted.length === 0) throw new Error(`No row matches "${values.only}"`)
  await buildPrograms()
  const start = performance.now()
  const measurements: Measurement[] = []
  for (const [at, scenario] of wanted.entries()) {
    console.error(`${at + 1}/${wanted.length} ${scenario.steps.map((step) => rowName(scenario, step)).join(" / ")}`)
    measurements.push(...(await measure(scenario, limits, isUnsure)).filter(({ row }) => only.test(row)))
  }
  const [ours = Number.NaN] = suites
    .filter(({ name }) => name === "ours")
    .map((suite) => sizeOf(suite, pluginNames).all)
  const verdicts = judge(measurements, ours)
  const minutes = Math.ceil((performance.now() - start) / 60_000)
  const lacking = leftOutHere()
  const facts = [
    ...(await machineFacts()),
    ...(await suiteFacts(suites)),
    `Measured in ${minutes} minutes`,
    ...(lacking.length > 0
      ? [`The kernel lacks a feature for these plugins, so they have only rows for VERSION: ${lacking.join(", ")}`]
      : []),
  ]
  const lengths = [`--runs ${runs}`, `--seconds ${seconds}`]
  const options = [values.only && `--only '${values.only}'`, ...lengths, values.peer && "--peer DIR", "--write"]
  const command = `npm run bench -- ${options.filter(Boolean).join(" ")}`
  if (values.write) writeResults({ measurements, verdicts, command, facts })
  if (values.json)
    console.log(
      JSON.stringify(
        { facts, measurements: measurements.map(({ samples: _, ...row }) => row), verdicts },
        undefined,
        2,
      ),
    )
  else console.log([formatTables(measurements, verdicts), ...facts].join("\n"))
}

if (import.meta.main) {
  try {
    await main()
  } catch (error) {
    console.error(error instanceof Error ? error.message : error)
    process.exitCode = 1
  }
}
