import type { PluginOutput } from "../lab/mod.ts"

/** The codes of the specification, and 0, 8 and 999 of the reference plugins. */
const codes = [0, 1, 2, 3, 4, 5, 6, 7, 8, 11, 50, 51, 999]

/** A pattern of words that no message may contain, because they show details of JavaScript or of the engine. */
const bad =
  /undefined|\[object|NaN|TypeError|ReferenceError|RangeError|SyntaxError|at <|\bat \S+ \(|Sanitizer|\.ts:\d|null\b/

/** The exit codes of timeout(1) for a program that exceeded its time limit. */
const killedCodes = [137, 124]

/** The failures of calls, counted by message without names and numbers, and the invalid error objects. */
export class Tally {
  readonly #counts = new Map<string, { count: number; example: string }>()
  /** Failures whose output does not follow the specification. */
  readonly violations: string[] = []
  longestMs = 0
  calls = 0
  failures = 0
  killed = 0

  /**
   * Records the result of a call. Reports whether the call succeeded. `mayBeKilled` is true if the test may kill the
   * plugin.
   */
  note(call: string, output: PluginOutput, mayBeKilled: boolean): boolean {
    const { exitCode, json, stdout, stderr, durationMs } = output
    this.calls++
    this.longestMs = Math.max(this.longestMs, durationMs)
    if (mayBeKilled && killedCodes.includes(exitCode)) {
      this.killed++
      return false
    }
    if (bad.test(stderr)) this.violations.push(`${call}: stderr is ${stderr}`)
    if (exitCode === 0) return true
    this.failures++
    const { code, msg, details = "" } = (json ?? {}) as { code?: number; msg?: string; details?: string }
    const text = `${msg}; ${details}`
    if (exitCode !== 1 || code === undefined || !codes.includes(code) || !msg || bad.test(text))
      this.violations.push(`${call}: exit code ${exitCode}, stdout ${stdout}, stderr ${stderr}`)
    const key = `${call} ${code} ${plain(text)}`
    const known = this.#counts.get(key)
    if (known) known.count++
    else this.#counts.set(key, { count: 1, example: text })
    return false
  }

  /** Returns a line for each kind of failure, the most frequent first. */
  lines(): string[] {
    return [...this.#counts]
      .sort(([, a], [, b]) => b.count - a.count)
      .map(([key, { count }]) => `${String(count).padStart(5)} ${key}`)
  }
}

/** Returns a message without the parts that differ between calls. */
function plain(text: string): string {
  return text
    .replace(/cnit-\d+-[0-9a-f]+-\w+/g, "POD")
    .replace(/\bveth[0-9a-f]{6,}\b/g, "VETH")
    .replace(/\b(bwp|dev|far)[0-9a-f]+\b/g, "$1N")
    .replace(/\bfd00:[0-9a-f:]+/g, "IP6")
    .replace(/\b\d+\.\d+\.\d+\.\d+\b/g, "IP")
    .replace(/([0-9a-f]{2}:){5}[0-9a-f]{2}/g, "MAC")
    .replace(/\b[0-9a-f]{12,}\b/g, "HASH")
    .replace(/\d+/g, "N")
}
