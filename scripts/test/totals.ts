/** How many tests of a run passed, failed and did not run. */
export interface Totals {
  readonly passed: number
  readonly failed: number
  readonly skipped: number
}

/** Reads the totals from the `<testsuites>` element of a JUnit report. Throws when there is none. */
export function parseTotals(junit: string): Totals {
  const attributes = /<testsuites\b([^>]*)>/.exec(junit)?.[1]
  if (attributes === undefined) throw new Error("Cannot read the test report: it has no <testsuites>")
  const count = (name: string) => Number(new RegExp(`\\b${name}="(\\d+)"`).exec(attributes)?.[1] ?? 0)
  const [failed, skipped] = [count("failures") + count("errors"), count("skipped")]
  return { passed: count("tests") - failed - skipped, failed, skipped }
}
