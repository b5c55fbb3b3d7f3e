import type { Sample } from "../integration/lab/mod.ts"
import { Load } from "./load.ts"
import { type Summary, summarize } from "./statistics.ts"

/** A subject that is timed, set up and ready. */
export interface Contender extends AsyncDisposable {
  /** One round: what each step took, by the step's name. */
  round(): Promise<Readonly<Record<string, Sample>>>
}

/** One subject of the benchmark. Each of its steps, timed with each contender, is a row. */
export interface Scenario {
  readonly name: string
  /** The steps of a round, in their order. */
  readonly steps: readonly string[]
  readonly contenders: Readonly<Record<string, () => Promise<Contender>>>
  /** The contender whose median the ratios are relative to. */
  readonly baseline: string
  /** Rounds for so many runs asked for, where a round takes long; by default all. */
  readonly rounds?: (runs: number) => number
  /** Rounds before the first one that counts: files get cached, bridges made; by default 3. */
  readonly warmUp?: number
  /** Other processes keep the processors busy. */
  readonly loaded?: boolean
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
}

/** What the name of a row ends with when the node had other work. */
export const loadSuffix = ", under load"

/** The name of the row of a step. */
export function rowName(scenario: Scenario, step: string): string {
  return `${scenario.name} ${step}${scenario.loaded ? loadSuffix : ""}`
}

/** The same scenario on a node that has other work. */
export function underLoad(scenario: Scenario): Scenario {
  const rounds = scenario.rounds ?? ((runs: number) => runs)
  return { ...scenario, loaded: true, rounds: (runs) => Math.ceil(rounds(runs) / 2) }
}

/**
 * Runs a scenario: all contenders are set up, then take turns (A B A B …), so that whatever else the machine does hits
 * all of them alike.
 */
export async function measure(scenario: Scenario, runs: number): Promise<Measurement[]> {
  await using stack = new AsyncDisposableStack()
  const contenders: [name: string, contender: Contender][] = []
  for (const [name, start] of Object.entries(scenario.contenders)) contenders.push([name, stack.use(await start())])
  if (scenario.loaded) stack.use(new Load())
  const samples = new Map(contenders.map(([name]) => [name, new Map<string, Sample[]>()]))
  const rounds = scenario.rounds?.(runs) ?? runs
  for (let round = -(scenario.warmUp ?? 3); round < rounds; round++) {
    for (const [name, contender] of contenders) {
      const steps = await contender.round()
      if (round < 0) continue
      for (const [step, sample] of Object.entries(steps)) samples.get(name)?.getOrInsert(step, []).push(sample)
    }
  }
  return scenario.steps.flatMap((step) => {
    const lists = [...samples].map(([contender, steps]) => ({ contender, list: steps.get(step) ?? [] }))
    const measured = lists.map(({ contender, list }) => ({
      row: rowName(scenario, step),
      contender,
      ...summarize(list.map(({ ms }) => ms)),
      cpuMs: summarize(list.map(({ cpuMs }) => cpuMs)).median,
      faults: summarize(list.map(({ faults }) => faults)).median,
      peakKb: Math.max(...list.map(({ peakKb }) => peakKb)),
    }))
    const base = measured.find(({ contender }) => contender === scenario.baseline)?.median ?? Number.NaN
    return measured.map((measurement) => ({ ...measurement, ratio: measurement.median / base }))
  })
}
