import type { Measurement } from "./measure.ts"
import { type Interval, intervalOf, runsForP99 } from "./statistics.ts"
import { type Cell, sizes, type Target, targets } from "./targets.ts"

export interface Verdict {
  readonly what: string
  readonly value: number
  /** The 95 % interval of the value; absent for an exact value. */
  readonly interval?: Interval
  readonly unit: "x" | "MB"
  /** Whether the value must be at most the bound, rather than at least. */
  readonly atMost: boolean
  readonly must: number
  readonly goal?: number
}

/** Returns the verdicts on the total size of files and all targets, except for targets without measured rows. */
export function judge(measurements: readonly Measurement[], fileBytes: number): Verdict[] {
  const find = ([row, contender]: Cell) =>
    measurements.find((measured) => measured.row === row && measured.contender === contender)
  const ratios = targets.flatMap((target): Verdict[] => {
    const [ours, other] = [find(target.ours), find(target.other)]
    return ours && other ? [verdictOf(target, ours, other)] : []
  })
  const calls = measurements.filter(
    ({ contender, row }) => contender.startsWith("ours") && !row.startsWith("data path"),
  )
  const peak = (isAnew: boolean) =>
    Math.max(...calls.filter(({ row }) => row.includes("read anew") === isAnew).map(({ peakKb }) => peakKb / 1024))
  const amounts: Verdict[] = [
    { ...sizes.call, value: peak(false), unit: "MB", atMost: true },
    { ...sizes.readAnew, value: peak(true), unit: "MB", atMost: true },
    { ...sizes.files, value: fileBytes / 2 ** 20, unit: "MB", atMost: true },
  ]
  return [...ratios, ...amounts.filter(({ value }) => Number.isFinite(value))]
}

function verdictOf({ what, figure, isRate, must, goal }: Target, ours: Measurement, other: Measurement): Verdict {
  const ratio = ours[figure] / other[figure]
  const times = ({ samples }: Measurement) => samples.map(({ ms, cpuMs }) => (figure === "cpuMs" ? cpuMs : ms))
  const { low, high } = intervalOf(times(ours), times(other), figure === "p99" ? "p99" : "median")
  const isShaky = figure === "p99" && ours.runs < runsForP99
  return {
    what: isShaky ? `${what} of ${ours.runs} runs` : what,
    value: isRate ? 1 / ratio : ratio,
    interval: isRate ? { low: 1 / high, high: 1 / low } : { low, high },
    unit: "x",
    atMost: !isRate,
    must,
    ...(goal === undefined ? {} : { goal }),
  }
}

/** The outcome of comparing a value with a bound. It is "unsure" if the bound is inside the value's interval. */
export type Outcome = "met" | "missed" | "unsure"

export function outcomeOf({ value, atMost, interval = { low: value, high: value } }: Verdict, bound: number): Outcome {
  const holds = (value: number) => (atMost ? value <= bound : value >= bound)
  const [low, high] = [holds(interval.low), holds(interval.high)]
  return low !== high ? "unsure" : low ? "met" : "missed"
}

/** Reports whether a bound that must hold has an unsure verdict, which more rounds could decide. */
export function isUnsure(measurements: readonly Measurement[]): boolean {
  return judge(measurements, Number.NaN).some((verdict) => outcomeOf(verdict, verdict.must) === "unsure")
}
