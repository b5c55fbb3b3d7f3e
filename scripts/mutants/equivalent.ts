import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"

/** A mistake as it is written down: the file, the lines without it, the lines with it. */
export interface Difference {
  readonly file: string
  readonly before: readonly string[]
  readonly after: readonly string[]
}

/** A mistake that changes nothing that a test could see, and why. */
export interface Equivalent extends Difference {
  readonly reason: string
}

/** The lines in which two sources differ, without their indentation. */
export function differenceOf(file: string, source: string, changed: string): Difference {
  const [before, after] = [source.split("\n"), changed.split("\n")]
  let start = 0
  while (start < Math.min(before.length, after.length) && before[start] === after[start]) start++
  let end = 0
  const shorter = Math.min(before.length, after.length) - start
  while (end < shorter && before.at(-1 - end) === after.at(-1 - end)) end++
  const lines = (text: string[]) => text.slice(start, text.length - end).map((line) => line.trim())
  return { file, before: lines(before), after: lines(after) }
}

/** A mistake as the list has it: the file, `- ` and `+ ` before its lines. */
export function format({ file, before, after }: Difference): string {
  return [file, ...before.map((line) => `- ${line}`), ...after.map((line) => `+ ${line}`)].join("\n")
}

/**
 * Parses a list of mistakes that make no difference: blocks of lines with an empty line between them; a file's name,
 * which holds for the blocks that follow as well; lines without the mistake after `- `, lines with it after `+ `, the
 * reason after `= `.
 */
export function parseEquivalents(text: string): Equivalent[] {
  let file = ""
  const found: Equivalent[] = []
  for (const block of text.split(/\n\s*\n/)) {
    const lines = block.split("\n").filter((line) => line.trim() !== "" && !line.startsWith("#"))
    const marked = (sign: string) => lines.filter((line) => line.startsWith(sign)).map((line) => line.slice(1).trim())
    const name = lines.find((line) => !/^[-+=]/.test(line))
    if (name !== undefined) file = name.trim()
    const [before, after, reason] = [marked("-"), marked("+"), marked("=").join(" ")]
    if (before.length + after.length > 0) found.push({ file, before, after, reason })
  }
  return found
}

/** All that the lists of a directory hold. */
export function readEquivalents(directory: string): Equivalent[] {
  const names = readdirSync(directory).filter((name) => name.endsWith(".txt"))
  return names.sort().flatMap((name) => parseEquivalents(readFileSync(join(directory, name), "utf8")))
}
