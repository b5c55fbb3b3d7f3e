import type { TestCase } from "./test-cases.ts"

/**
 * The numbers of the statements that a test holds: `#12` or `#30, #34` at the start of its title, or of the title of a
 * `describe` around it. Anywhere else, and before a letter, `#` means something else.
 */
export function numbersOf({ titles }: Pick<TestCase, "titles">): number[] {
  const starts = titles.map((title) => /^#\d+(?:, #\d+)*(?!\w)/.exec(title)?.[0] ?? "")
  return [...new Set(starts.join().match(/\d+/g)?.map(Number))]
}

/** Whether a test file writes a number where a title may begin: at the start of a string. */
export function mayHaveNumbers(source: string): boolean {
  return /["'`]#\d+(?!\w)/.test(source)
}
