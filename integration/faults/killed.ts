import { afterAll, beforeAll, expect } from "bun:test"
import { join } from "node:path"
import { CProgram, isLong, type PluginOutput, seed, tellFigure } from "../lab/mod.ts"
import { type Chain, ChainHost, nothingValid } from "./chain.ts"
import { asBefore, type Recovery, recoveries } from "./recoveries.ts"

/** The exit code of shells and of `kill-at` for a program that SIGKILL has ended. */
const killedBySignal = 128 + 9

let killAt: CProgram

/**
 * Builds `kill-at`, which kills a plugin at a system call. Each test file that uses `kill-at` must call this function.
 */
export function useKillAt(): void {
  beforeAll(async () => {
    killAt = await CProgram.build(join(import.meta.dir, "kill-at.c"))
  })
  afterAll(() => killAt[Symbol.asyncDispose]())
}

/** Returns the command that kills a plugin at its nth system call, before or after the kernel executes that call. */
export function killAtCall(when: "before" | "after", nth: number): string[] {
  return [killAt.path, when, String(nth)]
}

/** A verb during which plugins are killed. */
export interface Killed {
  readonly verb: "ADD" | "DEL" | "GC" | "CHECK" | "STATUS"
  /** The number of kills in `npm test`. 0 leaves the verb to the long form. */
  readonly quick: number
  /**
   * How often the long form kills at every system call. 2 rounds kill before and after each call; 6 rounds combine each
   * call with each recovery.
   */
  readonly rounds: number
}

/** The maximum number of rounds. `CNI_FAULTS_ROUNDS` shortens the long form. */
const roundsAtMost = Number(process.env.CNI_FAULTS_ROUNDS ?? recoveries.length)

/** A system call at which a plugin is killed, and the steps that follow. */
interface Point {
  readonly nth: number
  readonly when: "before" | "after"
  readonly recovery: Recovery
}

/**
 * Returns the points for a verb that makes `total` system calls: all calls in the long form, otherwise some that are
 * spread evenly and shifted by the seed.
 */
function pointsOf(total: number, { quick, rounds }: Killed): Point[] {
  const point = (at: number, round: number): Point => ({
    nth: at + 1,
    // Six rounds combine each call with each recovery, and two rounds with both sides. Each recovery occurs with both
    // sides.
    when: (round + Math.floor(at / recoveries.length)) % 2 === 0 ? "before" : "after",
    recovery: recoveries[(at + round) % recoveries.length] as Recovery,
  })
  const calls = Array.from({ length: total }, (_, at) => at)
  if (isLong) {
    const all = Array.from({ length: Math.min(rounds, roundsAtMost) }, (_, round) => round)
    return all.flatMap((round) => calls.map((at) => point(at, round + seed)))
  }
  const step = total / quick
  const some = Array.from({ length: Math.min(quick, total) }, (_, n) => Math.floor(n * step + (seed % step)) % total)
  return some.map((at, n) => point(at, n + seed + 5 * at)) // each point uses the next recovery
}

/**
 * Runs a verb up to the plugin at index `at`, after all earlier calls of a runtime. The command `under` runs that
 * plugin.
 */
async function run(
  scene: ChainHost,
  verb: Killed["verb"],
  at: number,
  under: readonly string[],
): Promise<PluginOutput> {
  if (verb === "ADD") {
    const input = await scene.add(at)
    return scene.calls(verb)[at]?.attachment.run(verb, input, { under }) as Promise<PluginOutput>
  }
  if (verb === "DEL" || verb === "GC") await scene.add()
  const keys = verb === "GC" ? nothingValid : verb === "STATUS" ? {} : { prevResult: scene.answer }
  for (const { at: place, attachment } of scene.calls(verb)) {
    const isKilled = place === at
    const output = await attachment.run(verb, keys, isKilled ? { under } : {})
    if (isKilled) return output
    expect(output).toMatchObject({ exitCode: 0 })
  }
  throw new Error("no such plugin")
}

/** Reports whether a verb changes nothing on the host. */
function isReading(verb: Killed["verb"]): boolean {
  return verb === "CHECK" || verb === "STATUS"
}

/** The tries of one chain, with the failures so far. */
class Killing implements AsyncDisposable {
  readonly #chain: Chain
  #scene: ChainHost
  tried = 0
  readonly failures: string[] = []

  private constructor(chain: Chain, scene: ChainHost) {
    this.#chain = chain
    this.#scene = scene
  }

  static async create(chain: Chain): Promise<Killing> {
    return new Killing(chain, await ChainHost.create(chain))
  }

  /** Kills the plugin at an index of the chain at each point of a verb. */
  async kill(at: number, killed: Killed): Promise<void> {
    const { verb } = killed
    const total = await this.#countCalls(at, verb)
    for (const point of pointsOf(total, killed)) {
      const changes = await this.#try(at, verb, point).catch((error: unknown) => `${error}`)
      if (changes === undefined) continue
      this.tried++
      const what = `${verb} of ${this.#chain.plugins[at]?.type} killed ${point.when} call ${point.nth}; ${point.recovery.what}`
      if (changes !== "") this.failures.push(`${what}:\n${changes}`)
      if (changes === "" && (isReading(verb) || !(this.#scene.movesDevice && point.recovery.removesContainer))) continue
      await this.#scene[Symbol.asyncDispose]()
      this.#scene = await ChainHost.create(this.#chain)
      if (isReading(verb)) await this.#addAll()
    }
    if (isReading(verb)) {
      await this.#scene.del()
      await this.#scene.remember()
    }
  }

  /**
   * Returns the number of system calls that the plugin makes for a verb, with every object present that the verb reads.
   */
  async #countCalls(at: number, verb: Killed["verb"]): Promise<number> {
    if (isReading(verb)) await this.#addAll()
    const { exitCode, stderr, stdout } = await run(this.#scene, verb, at, killAtCall("before", 0))
    expect({ exitCode, stdout }).toMatchObject({ exitCode: 0 })
    if (!isReading(verb)) await this.#scene.del()
    const total = Number(/(\d+) calls\n$/.exec(stderr)?.[1])
    expect(total).toBeGreaterThan(10)
    return total
  }

  async #addAll(): Promise<void> {
    await this.#scene.add()
    await this.#scene.remember()
  }

  /**
   * Kills the plugin at one point and runs the recovery. Returns the remaining differences, or undefined if the plugin
   * ended before system call `nth`.
   */
  async #try(at: number, verb: Killed["verb"], { nth, when, recovery }: Point): Promise<string | undefined> {
    const { exitCode, stdout } = await run(this.#scene, verb, at, killAtCall(when, nth))
    if (exitCode !== killedBySignal && exitCode !== 0) return `ended with ${exitCode}: ${stdout}`
    const changes = isReading(verb) ? await asBefore(this.#scene) : await recovery.recover(this.#scene)
    return exitCode === 0 && changes === "" ? undefined : changes
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#scene[Symbol.asyncDispose]()
  }
}

/**
 * Kills each plugin of a chain at system calls of `verbs`. Reports the numbers of tried and passed points. Throws
 * unless all points passed.
 */
export async function killChain(what: string, chain: Chain, verbs: readonly Killed[]): Promise<void> {
  await using killing = await Killing.create(chain)
  const counts: string[] = []
  for (const killed of verbs.filter(({ quick }) => isLong || quick > 0)) {
    const before = killing.tried
    for (const at of chain.killed ?? chain.plugins.keys()) await killing.kill(at, killed)
    counts.push(`${killed.verb} ${killing.tried - before}`)
  }
  const { tried, failures } = killing
  await tellFigure({ what, tried, held: tried - failures.length, note: counts.join(", ") })
  if (failures.length > 0) throw new Error(`${failures.length} of ${tried} points:\n${failures.slice(0, 5).join("\n")}`)
}
