import { readFile } from "node:fs/promises"
import { join } from "node:path"
import { builtPlugins, Chance, type CProgram, type Output, pluginEnv, seed, TemporaryDirectory } from "../lab/mod.ts"
import { nameOf, type Point, parseCalls, pointsOf } from "./points.ts"
import { Scene, type Subject, type Verb } from "./refused-scene.ts"

/**
 * The number of points between two comparisons, because a comparison is slow. After a difference, each point since the
 * previous comparison is tried alone.
 */
const between = 32

/** The output of a call, and whether the fault occurred. */
interface Tried extends Output {
  readonly fired: boolean
}

/** The tries of the points of one verb of one plugin. */
export class Refused implements AsyncDisposable {
  readonly #subject: Subject
  readonly #verb: Verb
  readonly #faultAt: CProgram
  readonly #directory: TemporaryDirectory
  #scene: Scene
  #said = ""

  private constructor(subject: Subject, verb: Verb, faultAt: CProgram, directory: TemporaryDirectory, scene: Scene) {
    this.#subject = subject
    this.#verb = verb
    this.#faultAt = faultAt
    this.#directory = directory
    this.#scene = scene
  }

  static async create(subject: Subject, verb: Verb, faultAt: CProgram): Promise<Refused> {
    const directory = await TemporaryDirectory.create("cni-refused")
    return new Refused(subject, verb, faultAt, directory, await Scene.create(subject, verb))
  }

  /** Returns all points of the verb. */
  async points(chance = new Chance(seed)): Promise<Point[]> {
    await this.#scene.prepare()
    await this.#run("list")
    await this.#scene.finish("")
    return pointsOf(parseCalls(await readFile(this.#directory.join("log"), "utf8")), chance)
  }

  async #run(fault: string): Promise<Tried> {
    const { stage, at } = this.#scene
    const bin = join(builtPlugins, stage.plugin)
    const env = pluginEnv({ bin, verb: this.#verb, containerId: at.pod.name, netns: at.pod.path, ifName: at.ifName })
    const log = this.#directory.join("log")
    const input = JSON.stringify({ ...at.attachment.config, ...this.#scene.keys })
    const output = await stage.host.tryExec(this.#faultAt.path, [log, fault, bin], { env, input })
    return { ...output, fired: (await readFile(log, "utf8")).startsWith("fired") }
  }

  /** Tries points until `most` faults have occurred. Returns a message for each violation. */
  async try(points: readonly Point[], most = points.length): Promise<{ tried: number; failures: string[] }> {
    const failures: string[] = []
    let tried = 0
    let next = 0
    while (next < points.length && tried < most) {
      const some = points.slice(next, next + Math.min(between, most - tried))
      next += some.length
      const said: string[] = []
      for (const point of some) {
        const wrong = await this.#tryOne(point)
        if (wrong !== undefined) tried++
        if (wrong) said.push(wrong)
      }
      if (said.length === 0 && (await this.#scene.difference()) === "") continue
      for (const point of some) {
        await this.#clean()
        const wrong = (await this.#tryOne(point)) ?? ""
        const left = await this.#scene.difference()
        const whole = [wrong, left && `${this.#said}\n${left}`].filter(Boolean).join("\n")
        if (whole !== "")
          failures.push(
            `${this.#verb} of ${this.#subject.title}, ${point.fault} (${nameOf(point.call)}, ${point.owed}): ${whole}`,
          )
      }
      await this.#clean()
    }
    return { tried, failures }
  }

  /** Replaces the scene by a new one if the state differs from the initial state. */
  async #clean(): Promise<void> {
    if ((await this.#scene.difference()) === "") return
    await this.#scene[Symbol.asyncDispose]()
    this.#scene = await Scene.create(this.#subject, this.#verb)
  }

  /** Tries one point. Returns the violations that show at once, or undefined if the fault did not occur. */
  async #tryOne(point: Point): Promise<string | undefined> {
    try {
      await this.#scene.prepare()
      const output = await this.#run(point.fault)
      this.#said = `exit code ${output.exitCode}: ${output.stdout.trim()} ${output.stderr.trim()}`
      const wrong = wrongAnswer(output, point)
      const unfinished = await this.#scene.finish(output.exitCode === 0 ? output.stdout : undefined, point.owed)
      return output.fired ? [wrong, unfinished].filter(Boolean).join("; ") : undefined
    } catch (error) {
      return String(error)
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#scene[Symbol.asyncDispose]()
    await this.#directory[Symbol.asyncDispose]()
  }
}

/**
 * The codes of the specification that this suite uses, 0 and 8 of the reference plugins, and 999 for all other errors.
 */
const codes = [0, 1, 4, 5, 6, 7, 8, 11, 50, 999]

/** Returns the protocol errors in a call's exit code and output, or "" if there are none. */
function wrongAnswer({ exitCode, stdout, stderr }: Output, { call, errno }: Point): string {
  const quoted = `exit code ${exitCode}, ${stdout.trim().slice(0, 600)} ${stderr.trim().slice(0, 600)}`
  if (exitCode === 0) return ""
  if (exitCode !== 1) return `it ended with ${quoted}`
  if (errno === "EINTR") return `a signal is no reason to fail: ${quoted}`
  if (stdout === "" && call.number === 1) return "" // the fault prevented the output
  let error: { code?: unknown; msg?: unknown; details?: unknown }
  try {
    error = JSON.parse(stdout)
  } catch {
    return `it said no JSON: ${quoted}`
  }
  const { code, msg, details = "" } = error
  const text = `${msg}; ${details}`
  if (!codes.includes(Number(code)) || typeof msg !== "string" || msg === "")
    return `not an error of this suite: ${quoted}`
  if (/\.ts:\d+/.test(text)) return `an unexpected error: ${quoted}`
  const isNamed = errno === undefined || text.includes(errno) || /^Cannot run the plugin:|not enough memory/.test(text)
  if (!isNamed) return `it does not name ${errno}: ${quoted}`
  return ""
}
