import type { Sample } from "../integration/lab/mod.ts"
import { Load, type LoadKind, loads } from "./load.ts"
import { type Summary, summarize } from "./statistics.ts"

/** What a step took, and how many of its calls failed, where that does not end the benchmark. */
export interface StepSample extends Sample {
  readonly failed?: number
}

/** A subject that is timed, set up and ready. */
export interface Contender extends AsyncDisposable {
  /** One round: what each step took, by the step's name. A step that this contender cannot do is left out. */
  round(): Promise<Readonly<Record<string, StepSample>>>
}

/** One subject of the benchmark. Each of its steps, timed with each contender, is a row. */
export interface Scenario {
  readonly name: string
  /** The steps of a round, in their order. */
  readonly steps: readonly string[]
  readonly contenders: Readonly<Record<string, () => Promise<Contender>>>
  /** The contender whose median the ratios are relative to. */
  readonly baseline: string
  /** How many times as long as others it may take, where a 99th percentile is wanted of what takes long; by default once. */
  readonly patience?: number
  /** Rounds however long they take; by default 5. */
  readonly atLeast?: number
  /** Rounds before the first one that counts: files get cached, bridges made; by default 3. */
  readonly warmUp?: number
  /** What else the node does. */
  readonly load?: LoadKind
}

/** One contender in one row. */
export interface Measurement extends Summary {
  readonly row: string
  readonly contender: string
  /** Its median relative to the baseline's. */
  readonly ratio: number
  /** Medians of CPU time and page faults; the highest memory of all rounds. */
  readonly cpuMs: number
  readonly faults: number
  readonly peakKb: number
  /** Calls that failed, of all rounds. */
  readonly failed: number
  /** Of each round. */
  readonly samples: readonly StepSample[]
}

/** When a scenario ends: after so many rounds, or so many seconds. */
export interface Limits {
  readonly runs: number
  readonly seconds: number
}

/** How many times as long a scenario goes on at most, for as long as a verdict on it is unsure. */
const LONGER = 4

/** The name of the row of a step. */
export function rowName(scenario: Scenario, step: string): string {
  return `${scenario.name} ${step}${scenario.load ? loads[scenario.load].suffix : ""}`
}

/** The same scenario on a node that has other work. */
export function underLoad(scenario: Scenario, load: LoadKind): Scenario {
  return { ...scenario, load }
}

/** Whether there is to be another round, after so many that have taken so many seconds. */
export function goesOn(scenario: Scenario, limits: Limits, rounds: number, seconds: number): boolean {
  if (rounds < Math.min(scenario.atLeast ?? 5, limits.runs)) return true
  return rounds < limits.runs && seconds < limits.seconds * (scenario.patience ?? 1)
}

/** The next limits of a scenario on which verdicts are unsure; undefined when it ran long enough. */
export function extended(limits: Limits, { runs, seconds }: Limits): Limits | undefined {
  const longer = { runs: limits.runs + runs, seconds: limits.seconds + seconds }
  return longer.runs > LONGER * runs ? undefined : longer
}

/**
 * Runs a scenario: all contenders are set up, then take turns (A B B A …), so that what else the machine does hits
 * all of them alike. It goes on beyond the limits while a verdict on the measurements `isUnsure`.
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
    // A B B A: what comes first, and after which other one, is the same for all.
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
