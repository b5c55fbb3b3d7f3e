export interface Summary {
  readonly runs: number
  readonly min: number
  readonly median: number
  /** The time that 99 of 100 runs do not exceed; for fewer than 100 runs, the maximum. */
  readonly p99: number
  readonly max: number
}

/**
 * The minimum number of runs for a verdict on a 99th percentile. The maximum of 300 runs exceeds the true percentile
 * with a probability of 95 % (1 - 0.99^300), the maximum of 100 runs only with 63 %.
 */
export const runsForP99 = 300

/** Summarizes a list of times. Throws if the list is empty. */
export function summarize(times: readonly number[]): Summary {
  const sorted = times.toSorted((a, b) => a - b)
  const [min, max] = [sorted[0], sorted.at(-1)]
  if (min === undefined || max === undefined) throw new Error("Cannot sum up: there are no times")
  const middle = sorted.slice(Math.floor((sorted.length - 1) / 2), Math.floor(sorted.length / 2) + 1)
  const median = middle.reduce((sum, time) => sum + time, 0) / middle.length
  return { runs: sorted.length, min, median, p99: sorted[Math.ceil(0.99 * sorted.length) - 1] ?? max, max }
}

export type Statistic = "median" | "p99"

/** The confidence interval of a ratio. */
export interface Interval {
  readonly low: number
  readonly high: number
}

/**
 * The minimum number of rounds for a bootstrap. For five rounds, the range of all ratios is already a 94 % interval.
 */
const FEW = 6
const DRAWS = 1000

/**
 * Returns the 95 % interval of the ratio of two contenders' medians or percentiles. Times at the same index must be
 * from the same round. Resamples the rounds a thousand times (bootstrap); for few rounds, returns the range of all
 * ratios. Equal times give equal intervals. Throws if a list is empty.
 */
export function intervalOf(times: readonly number[], others: readonly number[], by: Statistic): Interval {
  const rounds = Math.min(times.length, others.length)
  const draws = rounds < FEW ? rounds : DRAWS
  const random = generator()
  const ratios = Array.from({ length: draws }, (_, draw) => {
    const drawn = rounds < FEW ? [draw] : Array.from({ length: rounds }, () => Math.floor(random() * rounds))
    const at = (list: readonly number[]) => summarize(drawn.map((round) => list[round] ?? Number.NaN))[by]
    return at(times) / at(others)
  }).sort((a, b) => a - b)
  const outside = rounds < FEW ? 0 : Math.floor(0.025 * draws)
  const [low, high] = [ratios[outside], ratios.at(-1 - outside)]
  if (low === undefined || high === undefined) throw new Error("Cannot compare: there are no times")
  return { low, high }
}

/** Returns a generator of pseudorandom numbers from 0 to 1, always the same sequence: mulberry32. */
function generator(): () => number {
  let state = 1
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}
