import { extent, tellFigure } from "../../lab/mod.ts"
import type { Outcome } from "./case.ts"

/** The numbers of cases by their garbled part, and the failed cases. */
export class Tally {
  readonly #what: string
  readonly #tried = new Map<string, number>()
  readonly #broken: Outcome["broken"][number][] = []

  /** Creates an empty tally. `what` is a heading for the results, such as "garbage told to a plugin". */
  constructor(what: string) {
    this.#what = what
  }

  add({ tried, broken }: Outcome): void {
    for (const [input, times] of Object.entries(tried)) this.#tried.set(input, (this.#tried.get(input) ?? 0) + times)
    this.#broken.push(...broken)
  }

  /**
   * Throws if cases failed after the first `since` failures. The message contains each of these cases as a line for the
   * corpus.
   */
  requireHeld(since = 0): void {
    const broken = this.#broken.slice(since)
    if (broken.length === 0) return
    const shown = broken.slice(0, extent(5, 40)).map(({ case: one, why }) => `${why}\n${JSON.stringify(one)}`)
    throw new Error(`${broken.length} did not hold\n${shown.join("\n\n")}`)
  }

  /** The number of failed cases. */
  get broken(): number {
    return this.#broken.length
  }

  /** Reports the result for each garbled part. */
  async tell(): Promise<void> {
    for (const [input, tried] of this.#tried) {
      const isOfInput = ({ case: one }: Outcome["broken"][number]) =>
        input === (one.kind === "read" ? one.reader : one.input)
      const held = tried - this.#broken.filter(isOfInput).length
      await tellFigure({ what: `${this.#what}: ${input}`, tried, held })
    }
  }
}
