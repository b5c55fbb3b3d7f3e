import { appendFile } from "node:fs/promises"

/** The random seed. `CNI_TEST_SEED=7 npm run test:faults` makes other choices, the same ones each time. */
export const seed = Number(process.env.CNI_TEST_SEED ?? 20261122)

/** Whether the long form of fault tests runs, as `npm run test:faults` requests. */
export const isLong = process.env.CNI_FAULTS === "long"

/** Returns the extent of a test: a fixed part in `npm test`, all of it in `npm run test:faults`. */
export function extent(quick: number, long: number): number {
  return isLong ? long : quick
}

/**
 * Returns the part of a long form that runs, for slower machines. `CNI_FAULTS_SHARE=0.3` is the first three tenths,
 * `0.3-1` the others. Throws for other texts.
 */
export function readShare(written = process.env.CNI_FAULTS_SHARE ?? "1"): { from: number; to: number } {
  const [, from = "0", to] = /^(?:([\d.]+)-)?([\d.]+)$/.exec(written) ?? []
  const share = { from: Number(from), to: Number(to) }
  if (share.from >= 0 && share.from < share.to && share.to <= 1) return share
  throw new Error(`Cannot use CNI_FAULTS_SHARE=${written}: expected a share such as 0.3 or 0.3-1`)
}

/** A result of a fault test, as `npm run test:faults` prints it at its end. */
export interface Figure {
  /** The subject: "ADD of bridge, killed before each system call". */
  what: string
  /** The number of tries, and of successes. */
  tried: number
  held: number
  /** More text: sizes, times with units. */
  note?: string
}

/** Returns the reported figures as rows of a table. */
export function readFigures(text: string): string[] {
  const figures = text
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line) as Figure)
  return figures.map(({ what, tried, held, note = "" }) => `| ${what} | ${tried} | ${held} | ${note} |`)
}

/** Reports a figure to the test run. Does nothing in a single test. */
export async function tellFigure(figure: Figure): Promise<void> {
  const file = process.env.CNI_FAULTS_FIGURES
  if (file !== undefined) await appendFile(file, `${JSON.stringify(figure)}\n`)
}
