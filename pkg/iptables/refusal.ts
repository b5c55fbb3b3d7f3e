import { CniError, Code } from "../types/mod.ts"
import type { TableName } from "./rule.ts"
import { splitWords } from "./words.ts"

/**
 * The error for a program that has failed: what could not be done, the line of the input that was refused, and the
 * program's own words; in the details what the kernel has to have for it. The number of the line is in the words: they
 * are read for the message alone.
 */
export function refusal(
  what: string,
  table: TableName,
  stderr: string,
  input = "",
  code: number = Code.Internal,
): CniError {
  const line = input.split("\n")[Number(/\bline:? (\d+)/.exec(stderr)?.[1]) - 1]
  const place = line === undefined ? "" : `: "${line}" was refused`
  const reason = essence(stderr)
  const needed = new Set([`table ${table}`, ...neededBy(line === undefined || line === "COMMIT" ? input : line)])
  return new CniError(code, `${what}${place}${reason === "" ? "" : `: ${reason}`}`, {
    details: `the kernel has to have ${[...needed].join(", ")}`,
  })
}

/** The matches and targets in these lines. */
function neededBy(lines: string): string[] {
  return lines.split("\n").flatMap((line) => {
    const words = splitWords(line)
    return words.flatMap((word, at) => {
      if (words[at - 1] === "-m") return [`match ${word}`]
      return words[at - 1] === "-j" && /^[A-Z]+$/.test(word) ? [`target ${word}`] : []
    })
  })
}

/** What a program said, without its name, the number of the line, what it says about other things, and its advice. */
function essence(stderr: string): string {
  return stderr
    .split("\n")
    .map((line) =>
      line.replace(/^ip6?tables-\S+( v[\d.]+)?( \(\w+\))?:\s*/, "").replace(/^line \d+( failed)?(: )?/, ""),
    )
    .filter((line) => line.trim() !== "" && !/^(# Warning|Error occurred at|Try `)/.test(line))
    .join("; ")
}
