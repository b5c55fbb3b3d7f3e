/** A test that was left out because of the kernel, and the features that were missing. */
export interface LeftOut {
  readonly title: string
  readonly missing: readonly string[]
}

/** The title of a test that needs features. */
export function titleWith(name: string, needs: readonly string[]): string {
  return `${name} (needs ${needs.join(", ")})`
}

/** Matches the titles of tests that need one of these features, for `bun test --test-name-pattern`. */
export function titlesWith(features: readonly string[]): string {
  return `\\(needs (\\w+, )*(${features.join("|")})(, \\w+)*\\)$`
}

/** The line that says that a test was left out. */
export function leftOutLine({ title, missing }: LeftOut): string {
  return `not on this kernel: ${title}; missing: ${missing.join(", ")}`
}

/** Reads the lines about left-out tests from the output of `bun test`. */
export function leftOutTests(output: string): LeftOut[] {
  const lines = output.matchAll(/^not on this kernel: (.*); missing: (.*?)\r?$/gm)
  return [...lines].map(([, title = "", missing = ""]) => ({ title, missing: missing.split(", ") }))
}
