import { appendFile } from "node:fs/promises"

/** The random seed. `CNI_TEST_SEED=7 npm run test:faults` chooses other random values, the same in each run. */
export const seed = Number(process.env.CNI_TEST_SEED ?? 20261122)

/** Whether the long form of fault tests runs, as `npm run test:faults` requests. */
export const isLong = process.env.CNI_FAULTS === "long"

/** Returns the number of tries of a test: `quick` in `npm test`, `long` in `npm run test:faults`. */
export function extent(quick: number, long: number): number {
  return isLong ? long : quick
}

/**
 * Returns the part of the long fault tests to run, from `CNI_FAULTS_SHARE`. A slow machine can run the tests in parts:
 * `0.3` is the first three tenths, `0.3-1` the rest. Throws for any other format.
 */
export function readShare(written = process.env.CNI_FAULTS_SHARE ?? "1"): { from: number; to: number } {
  const [, from = "0", to] = /^(?:([\d.]+)-)?([\d.]+)$/.exec(written) ?? []
  const share = { from: Number(from), to: Number(to) }
  if (share.from >= 0 && share.from < share.to && share.to <= 1) return share
  throw new Error(`Cannot use CNI_FAULTS_SHARE=${written}: expected a share such as 0.3 or 0.3-1`)
}

/** A result of a fault test. `npm run test:faults` prints all results at its end. */
export interface Figure {
  /** The subject, such as "ADD of bridge, killed before each system call". */
  what: string
  tried: number
  held: number
  /** Further text, such as sizes and times with units. */
  note?: string
}

/** Returns recorded results as rows of a Markdown table. `text` has one JSON object on each line. */
export function readFigures(text: string): string[] {
  const figures = text
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line) as Figure)
  return figures.map(({ what, tried, held, note = "" }) => `| ${what} | ${tried} | ${held} | ${note} |`)
}

/** Appends a result to the file that `npm run test:faults` reads. Does nothing outside that run. */
export async function tellFigure(figure: Figure): Promise<void> {
  const file = process.env.CNI_FAULTS_FIGURES
  if (file !== undefined) await appendFile(file, `${JSON.stringify(figure)}\n`)
}
