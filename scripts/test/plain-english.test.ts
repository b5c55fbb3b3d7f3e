import { expect, test } from "bun:test"
import { execFileSync } from "node:child_process"
import { readFileSync } from "node:fs"
import { basename } from "node:path"

/** Words that hide the subject of a sentence, and what to write instead. */
const plainer: readonly (readonly [word: RegExp, instead: string])[] = [
  [/\b(?:some|no)body\b(?!")/i, "the program, user or container that is meant"],
  [/\bwho(?:so)?ever\b/i, "the program, user or container that is meant"],
  [/\b(?:what|which|wher)(?:so)?ever\b/i, "each, every, any, in all places"],
  [/(?<!there )\bis none\b/i, 'what it is not: "is not a namespace"'],
  [/\b(?:has|have|had) gone\b/i, "no longer exists, was deleted"],
  [/\bmeanwhile\b/i, "since, during the call"],
  [/\bbe it\b/i, "also, such as"],
  [/\bsuch as it is\b/i, "unchanged"],
]

const files = execFileSync("git", ["ls-files", "*.ts", "*.md", "*.c", "*.h", "*.sh", "*.patch"], { encoding: "utf8" })
  .split("\n")
  .filter((file) => file !== "" && basename(file) !== basename(import.meta.path))

test.each(plainer.map(([word, instead]) => ({ word, instead })))("no text has $word", ({ word, instead }) => {
  const found = files.flatMap((file) =>
    readFileSync(file, "utf8")
      .split("\n")
      .flatMap((line, index) =>
        word.test(line) ? [`${file}:${index + 1}: ${line.trim()} (plainer: ${instead})`] : [],
      ),
  )
  expect(found).toEqual([])
})
