import type { TestCase } from "./test-cases.ts"

/**
 * Returns the numbers of the statements that a test covers: `#12` or `#30, #34` at the start of its title, or of the
 * title of an enclosing `describe`. A `#` anywhere else, or with a letter after the number, does not count.
 */
export function numbersOf({ titles }: Pick<TestCase, "titles">): number[] {
  const starts = titles.map((title) => /^#\d+(?:, #\d+)*(?!\w)/.exec(title)?.[0] ?? "")
  return [...new Set(starts.join().match(/\d+/g)?.map(Number))]
}

/** Reports whether a test file has such a number at the start of a string, where a title may begin. */
export function mayHaveNumbers(source: string): boolean {
  return /["'`]#\d+(?!\w)/.test(source)
}
