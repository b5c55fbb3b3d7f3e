import type { Sample } from "../integration/lab/mod.ts"
import { Load, type LoadKind, loads } from "./load.ts"
import { type Summary, summarize } from "./statistics.ts"

/** The time and resources of a step, and the number of its failed calls in benchmarks that continue after failures. */
export interface StepSample extends Sample {
  readonly failed?: number
}

/** A contender that is set up and ready to be timed. */
export interface Contender extends AsyncDisposable {
  /** Runs one round. Returns the samples by the steps' names. Omits steps that this contender does not support. */
  round(): Promise<Readonly<Record<string, StepSample>>>
}

/** A scenario of the benchmark. Each step of a scenario is a row, with one line for each contender. */
export interface Scenario {
  readonly name: string
  readonly steps: readonly string[]
  readonly contenders: Readonly<Record<string, () => Promise<Contender>>>
  /** The contender to which all ratios refer. */
  readonly baseline: string
  /** A factor for the time limit, 1 by default. Slow steps need it to have enough runs for a 99th percentile. */
  readonly patience?: number
  /** The minimum number of rounds, 5 by default. */
  readonly atLeast?: number
  /**
   * The number of rounds before the first one that counts, 3 by default. These rounds fill caches and create bridges.
   */
  readonly warmUp?: number
  readonly load?: LoadKind
}

export interface Measurement extends Summary {
  readonly row: string
  readonly contender: string
  /** The median divided by the baseline's median. */
  readonly ratio: number
  /** `cpuMs` and `faults` are medians, `peakKb` is the maximum of all rounds. */
  readonly cpuMs: number
  readonly faults: number
  readonly peakKb: number
  /** The number of failed calls in all rounds. */
  readonly failed: number
  readonly samples: readonly StepSample[]
}

/** The limits at which a scenario ends: a number of rounds, and seconds. */
export interface Limits {
  readonly runs: number
  readonly seconds: number
}

/** The maximum factor by which a scenario is extended while a verdict is unsure. */
const LONGER = 4

export function rowName(scenario: Scenario, step: string): string {
  return `${scenario.name} ${step}${scenario.load ? loads[scenario.load].suffix : ""}`
}

export function underLoad(scenario: Scenario, load: LoadKind): Scenario {
  return { ...scenario, load }
}

/** Reports whether another round follows after this many rounds and seconds. */
export function goesOn(scenario: Scenario, limits: Limits, rounds: number, seconds: number): boolean {
  if (rounds < Math.min(scenario.atLeast ?? 5, limits.runs)) return true
  return rounds < limits.runs && seconds < limits.seconds * (scenario.patience ?? 1)
}

/** Returns the extended limits of a scenario with unsure verdicts; undefined if it has run four times as long. */
export function extended(limits: Limits, { runs, seconds }: Limits): Limits | undefined {
  const longer = { runs: limits.runs + runs, seconds: limits.seconds + seconds }
  return longer.runs > LONGER * runs ? undefined : longer
}

/**
 * Runs a scenario. All contenders are set up and then take turns (A B B A …), so that other work of the machine affects
 * all of them equally. The scenario continues beyond the limits if a verdict on the measurements `isUnsure`.
 */
export async function measure(
  scenario: Scenario,
  limits: Limits,
  isUnsure: (measurements: readonly Measurement[]) => boolean,
): Promise<Measurement[]> {
  await using stack = new AsyncDisposableStack()
  const contenders: [name: string, contender: Contender][] = []
  for (const [name, start] of Object.entries(scenario.contenders)) contenders.push([name, stack.use(await start())])
  const load = scenario.load && stack.use(new Load(scenario.load))
  const samples = new Map(contenders.map(([name]) => [name, new Map<string, StepSample[]>()]))
  let start = performance.now()
  const seconds = () => (performance.now() - start) / 1000
  const summarized = () =>
    scenario.steps.flatMap((step) => {
      const lists = [...samples].flatMap(([contender, steps]) => {
        const list = steps.get(step)
        return list ? [{ contender, list }] : []
      })
      return summarizeRow(rowName(scenario, step), scenario.baseline, lists)
    })
  let until = limits
  for (let round = -(scenario.warmUp ?? 3); ; round++) {
    if (round === 0) start = performance.now()
    if (round > 0 && !goesOn(scenario, until, round, seconds())) {
      const longer = extended(until, limits)
      if (!longer || !isUnsure(summarized())) break
      until = longer
    }
    // The order A B B A balances the position and the predecessor of each run.
    for (const [name, contender] of round % 2 === 0 ? contenders : contenders.toReversed()) {
      const steps = await contender.round()
      if (round < 0) continue
      for (const [step, sample] of Object.entries(steps)) samples.get(name)?.getOrInsert(step, []).push(sample)
    }
  }
  if (scenario.load && load?.running !== loads[scenario.load].count) throw new Error("The load has ended too early")
  return summarized()
}

function summarizeRow(
  row: string,
  baseline: string,
  lists: readonly { contender: string; list: readonly StepSample[] }[],
): Measurement[] {
  const measured = lists.map(({ contender, list }) => ({
    row,
    contender,
    ...summarize(list.map(({ ms }) => ms)),
    cpuMs: summarize(list.map(({ cpuMs }) => cpuMs)).median,
    faults: summarize(list.map(({ faults }) => faults)).median,
    peakKb: Math.max(...list.map(({ peakKb }) => peakKb)),
    failed: list.reduce((all, { failed = 0 }) => all + failed, 0),
    samples: list,
  }))
  const base = measured.find(({ contender }) => contender === baseline)?.median ?? Number.NaN
  return measured.map((measurement) => ({ ...measurement, ratio: measurement.median / base }))
}
