export interface TestCase {
  /** The titles of the enclosing `describe`s, outermost first, then the test's own title. */
  readonly titles: readonly string[]
  readonly file: string
  readonly state: "passed" | "failed" | "skipped"
}

/**
 * Parses the tests in a JUnit report of `bun test`. The report has one `<testsuite>` per file, and a nested one per
 * `describe`. (`classname` also has the titles of these, but innermost first, and joined by a text that titles may
 * contain.)
 */
export function parseTestCases(junit: string): TestCase[] {
  const cases: { titles: string[]; file: string; state: TestCase["state"] }[] = []
  const suites: string[] = [] // the first is the file
  for (const [, closing, element, attributes = "", empty] of junit.matchAll(elements)) {
    const name = attribute(attributes, "name")
    if (element === "testsuite") {
      if (closing) suites.pop()
      else if (!empty) suites.push(name)
    } else if (element === "testcase") {
      if (!closing) cases.push({ titles: [...suites.slice(1), name], file: suites[0] ?? "", state: "passed" })
    } else {
      const last = cases.at(-1)
      if (last && !closing) last.state = element === "skipped" ? "skipped" : "failed"
    }
  }
  return cases
}

/** Matches tags, because `<` and `>` in texts and attributes are entities. */
const elements = /<(\/?)(testsuite|testcase|failure|error|skipped)\b([^>]*?)(\/?)>/g

function attribute(attributes: string, name: string): string {
  const text = new RegExp(`(?:^|\\s)${name}="([^"]*)"`).exec(attributes)?.[1] ?? ""
  return text.replace(/&(?:(lt|gt|quot|apos|amp)|#(\d+));/g, (_, entity: string | undefined, code: string) =>
    entity === undefined ? String.fromCodePoint(Number(code)) : (entities[entity] ?? ""),
  )
}

const entities: Readonly<Record<string, string>> = { lt: "<", gt: ">", quot: '"', apos: "'", amp: "&" }
