/** What programs took. All but `ms` includes their own children. */
export interface Sample {
  /** Wall time from before the start to after the end. */
  readonly ms: number
  /** CPU time, user and system. */
  readonly cpuMs: number
  /** The most memory that one process had resident. */
  readonly peakKb: number
  readonly faults: number
}

/** Programs that ran one after the other. With `ms`, their wall time was another: they ran at the same time. */
export function total(samples: readonly Sample[], ms = sum(samples.map((sample) => sample.ms))): Sample {
  return {
    ms,
    cpuMs: sum(samples.map(({ cpuMs }) => cpuMs)),
    peakKb: Math.max(...samples.map(({ peakKb }) => peakKb)),
    faults: sum(samples.map(({ faults }) => faults)),
  }
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((all, number) => all + number, 0)
}
