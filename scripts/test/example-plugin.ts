/** Creates the example plugin of CONTRIBUTING by following its steps literally. */
import { execFileSync } from "node:child_process"
import { cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"

const root = join(import.meta.dir, "../..")

/** A code block of CONTRIBUTING: a new file, or lines to add to a file or to replace in it. */
interface Step {
  readonly file: string
  readonly isNew: boolean
  readonly text: string
}

/** Returns the steps in their order. */
export function readSteps(page = readFileSync(join(root, "CONTRIBUTING.md"), "utf8")): Step[] {
  return [...page.matchAll(/^```(?:diff|\w+ (new)) (\S+)\n(.*?)\n```$/gms)].map(([, isNew, file = "", text = ""]) => {
    return { file, isNew: isNew !== undefined, text }
  })
}

/** Returns a file after a step. Lines that begin with " " or "-" are before the step, with " " or "+" after it. */
export function applyStep(before: string, { file, text }: Step): string {
  const lines = text.split("\n")
  const those = (sign: string) => lines.filter((line) => line[0] === " " || line[0] === sign)
  const textOf = (sign: string) =>
    those(sign)
      .map((line) => line.slice(1))
      .join("\n")
  const [old, next] = [textOf("-"), textOf("+")]
  if (before.split(old).length !== 2)
    throw new Error(`Cannot do a step in ${file}: it does not have this once:\n${old}`)
  return before.replace(old, () => next)
}

/** Copies the project into a directory and applies all steps there. */
export function makeExamplePlugin(directory: string): void {
  for (const file of execFileSync("git", ["ls-files", "-z"], { cwd: root, encoding: "utf8" }).split("\0"))
    if (file !== "") cpSync(join(root, file), join(directory, file))
  symlinkSync(join(root, "node_modules"), join(directory, "node_modules"))
  for (const step of readSteps()) {
    const path = join(directory, step.file)
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, step.isNew ? `${step.text}\n` : applyStep(readFileSync(path, "utf8"), step))
  }
}
