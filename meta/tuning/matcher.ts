import { type Pattern, parsePattern } from "./pattern.ts"
import { refuse } from "./pattern-characters.ts"

/** An instruction of a matcher. In `to`, a number is the index of another instruction. */
type Step =
  | Extract<Pattern, { is: "character" | "place" }>
  | { readonly is: "fork"; readonly to: number[] }
  | { readonly is: "found" }

/**
 * The maximum number of instructions of a matcher. A matcher of this size needs some seconds for a text of a thousand
 * characters. Patterns in practice have less than a hundred.
 */
const mostSteps = 10_000

/**
 * A regular expression in RE2's syntax. All alternatives are followed at once, so the time grows at most with the
 * product of the lengths of pattern and text. See Thompson 1968; https://swtch.com/~rsc/regexp
 */
export class Matcher {
  readonly #steps: readonly Step[]

  /** Compiles a pattern. Throws `SyntaxError` if RE2 does not accept the pattern. */
  constructor(pattern: string) {
    this.#steps = stepsOf(parsePattern(pattern))
  }

  /** Reports whether the pattern matches anywhere in a text. */
  test(text: string): boolean {
    const characters = [...text]
    const [first] = this.#steps
    const isAnchored = first?.is === "place" && first.isStart
    const seenAt = new Int32Array(this.#steps.length).fill(-1)
    let open: number[] = []
    for (let at = 0; at <= characters.length; at++) {
      open.push(0)
      const waiting: number[] = []
      for (let step = open.pop(); step !== undefined; step = open.pop()) {
        if (seenAt[step] === at) continue
        seenAt[step] = at
        const todo = this.#steps[step]
        if (todo?.is === "found") return true
        if (todo?.is === "fork") open.push(...todo.to)
        else if (todo?.is === "character") waiting.push(step)
        else if (todo?.holds(characters[at - 1], characters[at])) open.push(step + 1)
      }
      open = this.#past(waiting, characters[at])
      if (open.length === 0 && isAnchored) return false
    }
    return false
  }

  /** Returns the instructions after those of `waiting` that accept the character. */
  #past(waiting: readonly number[], character: string | undefined): number[] {
    const past: number[] = []
    if (character === undefined) return past
    for (const step of waiting) {
      const todo = this.#steps[step]
      if (todo?.is === "character" && todo.takes(character)) past.push(step + 1)
    }
    return past
  }
}

/** Compiles a pattern to a sequence of instructions. The pattern matches if a text reaches the last one. */
function stepsOf(pattern: Pattern): Step[] {
  const steps: Step[] = []
  let written = 0
  const fork = (...to: number[]) => {
    const step = { is: "fork", to } as const
    steps.push(step)
    return step
  }
  const write = (part: Pattern): void => {
    if (++written > mostSteps) refuse("expression too large")
    if (part.is === "character" || part.is === "place") steps.push(part)
    else if (part.is === "sequence") for (const one of part.of) write(one)
    else if (part.is === "choice") {
      const ends = part.of.map((one, at) => {
        const choice = fork(steps.length + 1)
        write(one)
        const end = fork()
        if (at < part.of.length - 1) choice.to.push(steps.length)
        return end
      })
      for (const { to } of ends) to.push(steps.length)
    } else {
      for (let count = 0; count < part.least; count++) write(part.of)
      if (part.most === Number.POSITIVE_INFINITY) {
        const start = steps.length
        const loop = fork(start + 1)
        write(part.of)
        fork(start)
        loop.to.push(steps.length)
      }
      const exits = []
      for (let count = part.least; count < part.most && part.most !== Number.POSITIVE_INFINITY; count++) {
        exits.push(fork(steps.length + 1))
        write(part.of)
      }
      for (const { to } of exits) to.push(steps.length)
    }
  }
  write(pattern)
  steps.push({ is: "found" })
  return steps
}
