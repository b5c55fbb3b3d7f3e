/** What a list of times says. */
export interface Summary {
  readonly runs: number
  readonly min: number
  readonly median: number
  readonly max: number
}

/** Sums up at least one time. Throws when there is none. */
export function summarize(times: readonly number[]): Summary {
  const sorted = times.toSorted((a, b) => a - b)
  const [min, max] = [sorted[0], sorted.at(-1)]
  if (min === undefined || max === undefined) throw new Error("Cannot sum up: there are no times")
  const middle = sorted.slice(Math.floor((sorted.length - 1) / 2), Math.floor(sorted.length / 2) + 1)
  return { runs: sorted.length, min, median: middle.reduce((sum, time) => sum + time, 0) / middle.length, max }
}
