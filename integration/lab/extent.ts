import { appendFile } from "node:fs/promises"

/** Where chance begins: `CNI_TEST_SEED=7 npm run test:faults` makes other choices, and the same ones each time. */
export const seed = Number(process.env.CNI_TEST_SEED ?? 20261122)

/** Whether the long form of the tests of faults runs, which `npm run test:faults` asks for. */
export const isLong = process.env.CNI_FAULTS === "long"

/** How much of a test runs: a part that changes with nothing in `npm test`, all of it in `npm run test:faults`. */
export function extent(quick: number, long: number): number {
  return isLong ? long : quick
}

/**
 * The part of a long form that runs, for a machine that has less time: `CNI_FAULTS_SHARE=0.3` is the first three tenths, `0.3-1` the
 * others. Throws for anything else.
 */
export function readShare(written = process.env.CNI_FAULTS_SHARE ?? "1"): { from: number; to: number } {
  const [, from = "0", to] = /^(?:([\d.]+)-)?([\d.]+)$/.exec(written) ?? []
  const share = { from: Number(from), to: Number(to) }
  if (share.from >= 0 && share.from < share.to && share.to <= 1) return share
  throw new Error(`Cannot use CNI_FAULTS_SHARE=${written}: expected a share such as 0.3 or 0.3-1`)
}

/** What a test of faults has seen, as `npm run test:faults` prints it at its end. */
export interface Figure {
  /** What was tried: "ADD of bridge, killed before each system call". */
  what: string
  /** How often, and how often what was promised held. */
  tried: number
  held: number
  /** More in words: sizes, times with units. */
  note?: string
}

/** The figures that were told, as rows of a table. */
export function readFigures(told: string): string[] {
  const figures = told
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line) as Figure)
  return figures.map(({ what, tried, held, note = "" }) => `| ${what} | ${tried} | ${held} | ${note} |`)
}

/** Prints a figure for the test run; a test that stands alone keeps it to itself. */
export async function tellFigure(figure: Figure): Promise<void> {
  const file = process.env.CNI_FAULTS_FIGURES
  if (file !== undefined) await appendFile(file, `${JSON.stringify(figure)}\n`)
}
