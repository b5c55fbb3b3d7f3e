/**
 * Times our executables side by side with Debian's Go plugins. Needs root.
 *
 *   npm run bench -- [--only REGEX] [--runs N] [--json]
 */
import { parseArgs } from "node:util"
import { type Measurement, measure, rowName, type Scenario } from "./measure.ts"
import { formatTable } from "./report.ts"
import { bridges } from "./rows/bridge.ts"
import { chains } from "./rows/chain.ts"
import { hostLocals } from "./rows/host-local.ts"
import { portmaps } from "./rows/portmap.ts"
import { version } from "./rows/version.ts"
import { copyGoSuite } from "./suites.ts"

/** Everything that is measured. A new row is a line here. */
const scenarios: readonly Scenario[] = [version, ...bridges, ...chains, ...hostLocals, ...portmaps]

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      only: { type: "string", default: "" },
      runs: { type: "string", default: "30" },
      json: { type: "boolean", default: false },
    },
  })
  const runs = Number(values.runs)
  if (!Number.isInteger(runs) || runs < 1) throw new Error(`Cannot run "${values.runs}" times: expected 1 or more`)
  if (process.getuid?.() !== 0) throw new Error("The benchmark makes network namespaces, which needs root")
  const only = new RegExp(values.only)
  const wanted = scenarios.filter((scenario) => scenario.steps.some((step) => only.test(rowName(scenario, step))))
  if (wanted.length === 0) throw new Error(`No row matches "${values.only}"`)
  copyGoSuite()
  const measurements: Measurement[] = []
  for (const scenario of wanted) measurements.push(...(await measure(scenario, runs)))
  const rows = measurements.filter(({ row }) => only.test(row))
  console.log(values.json ? JSON.stringify(rows, undefined, 2) : formatTable(rows))
}

if (import.meta.main) {
  try {
    await main()
  } catch (error) {
    console.error(error instanceof Error ? error.message : error)
    process.exitCode = 1
  }
}
