/** What became of one test. */
export interface TestCase {
  readonly title: string
  readonly file: string
  readonly state: "passed" | "failed" | "skipped"
}

/** Reads the tests from a JUnit report as `bun test` writes it; a test that a pattern leaves out is `skipped`. */
export function parseTestCases(junit: string): TestCase[] {
  const elements = junit.matchAll(/<testcase ([^>]*?)(?:\/>|>(.*?)<\/testcase>)/gs)
  return [...elements].map(([, attributes = "", content = ""]) => ({
    title: attribute(attributes, "name"),
    file: attribute(attributes, "file"),
    state: /<(failure|error)\b/.test(content) ? "failed" : /<skipped\b/.test(content) ? "skipped" : "passed",
  }))
}

function attribute(attributes: string, name: string): string {
  const text = new RegExp(`(?:^|\\s)${name}="([^"]*)"`).exec(attributes)?.[1] ?? ""
  return text.replace(/&(lt|gt|quot|apos|amp|#\d+);/g, (entity) => entities[entity] ?? fromCode(entity))
}

const entities: Readonly<Record<string, string>> = {
  "&lt;": "<",
  "&gt;": ">",
  "&quot;": '"',
  "&apos;": "'",
  "&amp;": "&",
}

/** The character of an entity like `&#10;`. */
function fromCode(entity: string): string {
  return String.fromCodePoint(Number(entity.slice(2, -1)))
}
