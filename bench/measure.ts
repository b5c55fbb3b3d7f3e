import { type Summary, summarize } from "./statistics.ts"

/** Somebody who is timed, set up and ready. */
export interface Contender extends AsyncDisposable {
  /** One round: the time of each step in milliseconds, by the step's name. */
  round(): Promise<Readonly<Record<string, number>>>
}

/** One subject of the benchmark. Each of its steps, timed with each contender, is a row. */
export interface Scenario {
  readonly name: string
  /** The steps of a round, in their order. */
  readonly steps: readonly string[]
  readonly contenders: Readonly<Record<string, () => Promise<Contender>>>
  /** The contender whose median the ratios are relative to. */
  readonly baseline: string
  /** The ratios that have to be reached, by contender and step. */
  readonly targets?: Readonly<Record<string, Readonly<Record<string, number>>>>
}

/** One contender in one row. */
export interface Measurement extends Summary {
  readonly row: string
  readonly contender: string
  /** Its median relative to the baseline's. */
  readonly ratio: number
  readonly target?: number
}

/** Rounds before the first one that counts: files get cached, bridges made, modules loaded. */
const warmUpRounds = 3

/** The name of the row of a step. */
export function rowName(scenario: Scenario, step: string): string {
  return `${scenario.name} ${step}`
}

/**
 * Runs a scenario: all contenders are set up, then take turns (A B A B …), so that whatever else the machine does hits
 * all of them alike.
 */
export async function measure(scenario: Scenario, runs: number): Promise<Measurement[]> {
  await using stack = new AsyncDisposableStack()
  const contenders: [name: string, contender: Contender][] = []
  for (const [name, start] of Object.entries(scenario.contenders)) contenders.push([name, stack.use(await start())])
  const times = new Map(contenders.map(([name]) => [name, new Map<string, number[]>()]))
  for (let round = -warmUpRounds; round < runs; round++) {
    for (const [name, contender] of contenders) {
      const steps = await contender.round()
      if (round < 0) continue
      for (const [step, ms] of Object.entries(steps)) {
        const list = times.get(name)?.getOrInsert(step, [])
        list?.push(ms)
      }
    }
  }
  return scenario.steps.flatMap((step) => {
    const summaries = new Map([...times].map(([name, steps]) => [name, summarize(steps.get(step) ?? [])]))
    const base = summaries.get(scenario.baseline)?.median ?? Number.NaN
    return [...summaries].map(([contender, summary]) => {
      const target = scenario.targets?.[contender]?.[step]
      const ratio = summary.median / base
      return { row: rowName(scenario, step), contender, ...summary, ratio, ...(target === undefined ? {} : { target }) }
    })
  })
}
