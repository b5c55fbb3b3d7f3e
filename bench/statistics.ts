/** What a list of times says. */
export interface Summary {
  readonly runs: number
  readonly min: number
  readonly median: number
  /** The time that 99 of 100 runs do not exceed; of fewer than 100 runs the longest. */
  readonly p99: number
  readonly max: number
}

/**
 * Runs from which a 99th percentile is worth a verdict: the longest of 300 lies beyond the true one with a certainty of 95 %
 * (1 - 0.99^300), of 100 with 63 %.
 */
export const runsForP99 = 300

/** Sums up at least one time. Throws when there is none. */
export function summarize(times: readonly number[]): Summary {
  const sorted = times.toSorted((a, b) => a - b)
  const [min, max] = [sorted[0], sorted.at(-1)]
  if (min === undefined || max === undefined) throw new Error("Cannot sum up: there are no times")
  const middle = sorted.slice(Math.floor((sorted.length - 1) / 2), Math.floor(sorted.length / 2) + 1)
  const median = middle.reduce((sum, time) => sum + time, 0) / middle.length
  return { runs: sorted.length, min, median, p99: sorted[Math.ceil(0.99 * sorted.length) - 1] ?? max, max }
}

/** What times are compared by. */
export type Statistic = "median" | "p99"

/** A ratio's interval of confidence. */
export interface Interval {
  readonly low: number
  readonly high: number
}

/** Fewer rounds than this are not drawn from: of five, the median of all rounds lies between the lowest and the highest with 94 %. */
const FEW = 6
const DRAWS = 1000

/**
 * The 95 % interval of the ratio of two contenders' medians or percentiles, whose times are of the same rounds: rounds are drawn from
 * those that were run, as many as there are, a thousand times (a bootstrap); of few rounds from the lowest to the highest ratio. The
 * same times have the same interval. Throws when there are none.
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

/** Numbers from 0 to 1 that are the same each time: mulberry32. */
function generator(): () => number {
  let state = 1
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}
