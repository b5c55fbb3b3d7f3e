import { readFile } from "node:fs/promises"
import { join } from "node:path"
import {
  type Attached,
  builtPlugins,
  Chance,
  type Change,
  type CProgram,
  diffSnapshots,
  formatChanges,
  isAllocationTrace,
  isLeftToKernel,
  type Output,
  pluginEnv,
  pluginRow,
  type Snapshot,
  Stage,
  seed,
  TemporaryDirectory,
  takeSnapshot,
} from "../lab/mod.ts"
import { nameOf, type Owed, type Point, parseCalls, pointsOf } from "./points.ts"

/** The verbs that change something, or look. */
export type Verb = "ADD" | "DEL" | "CHECK" | "GC" | "STATUS"

/** A plugin, and its configuration where that is not the table's. */
export interface Subject {
  readonly plugin: string
  readonly title: string
  readonly keys?: Record<string, unknown>
}

/** How many points lie between two comparisons, which are dear; after a difference each is tried by itself. */
const between = 32

/** A call that was made to fail: what it did, and whether the fault came to pass. */
interface Tried extends Output {
  readonly fired: boolean
}

/** Tries points of one verb of one plugin on a stage. */
export class Refused implements AsyncDisposable {
  readonly #subject: Subject
  readonly #verb: Verb
  readonly #faultAt: CProgram
  readonly #directory: TemporaryDirectory
  #scene: Scene
  /** What the last call said. */
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

  /** All points of the verb. */
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
    const output = await stage.host.tryExec(this.#faultAt.path, [log, fault, bin], { env, input, timeoutMs: 60_000 })
    return { ...output, fired: (await readFile(log, "utf8")).startsWith("fired") }
  }

  /** Tries the points; returns what did not hold, a text for each. */
  async try(
    points: readonly Point[],
    told: (failure: string) => void = () => {},
  ): Promise<{ tried: number; failures: string[] }> {
    const failures: string[] = []
    let tried = 0
    const note = (failure: string) => {
      failures.push(failure)
      told(failure)
    }
    for (let first = 0; first < points.length; first += between) {
      const some = points.slice(first, first + between)
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
          note(
            `${this.#verb} of ${this.#subject.title}, ${point.fault} (${nameOf(point.call)}, ${point.owed}): ${whole}`,
          )
      }
      await this.#clean()
    }
    return { tried, failures }
  }

  /** A scene on which nothing was left: this one after DEL, or else a new one. */
  async #clean(): Promise<void> {
    if ((await this.#scene.difference()) === "") return
    await this.#scene[Symbol.asyncDispose]()
    this.#scene = await Scene.create(this.#subject, this.#verb)
  }

  /** What did not hold, as far as it can be told at once; undefined when the fault did not come to pass. */
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

/** The codes of the specification that are ours, upstream's 0 and 8, and that of all else. */
const codes = [0, 1, 4, 5, 6, 7, 8, 11, 50, 999]

/** What is wrong with how a call ended and what it said: "" when it is right. */
function wrongAnswer({ exitCode, stdout, stderr }: Output, { call, errno }: Point): string {
  const quoted = `exit code ${exitCode}, ${stdout.trim().slice(0, 600)} ${stderr.trim().slice(0, 600)}`
  if (exitCode === 0) return ""
  if (exitCode !== 1) return `it ended with ${quoted}`
  if (errno === "EINTR") return `a signal is no reason to fail: ${quoted}`
  if (stdout === "" && call.number === 1) return "" // the answer itself could not be written
  let error: { code?: unknown; msg?: unknown; details?: unknown }
  try {
    error = JSON.parse(stdout)
  } catch {
    return `it said no JSON: ${quoted}`
  }
  const { code, msg, details = "" } = error
  const text = `${msg}; ${details}`
  if (!codes.includes(Number(code)) || typeof msg !== "string" || msg === "") return `no error of ours: ${quoted}`
  if (/\.ts:\d+/.test(text)) return `an unexpected error: ${quoted}`
  const isNamed = errno === undefined || text.includes(errno) || /^Cannot run the plugin:|not enough memory/.test(text)
  if (!isNamed) return `it does not name ${errno}: ${quoted}`
  return ""
}

/** A host with an attachment at which a verb is tried, and what has to be there afterwards. */
class Scene implements AsyncDisposable {
  readonly stage: Stage
  readonly #verb: Verb
  readonly at: Attached
  /** Stays, when garbage is collected. */
  readonly #kept: Attached | undefined
  #before: readonly Snapshot[] = []
  keys: Record<string, unknown> = {}

  private constructor(stage: Stage, verb: Verb, at: Attached, kept: Attached | undefined) {
    this.stage = stage
    this.#verb = verb
    this.at = at
    this.#kept = kept
  }

  static async create({ plugin, keys = {} }: Subject, verb: Verb): Promise<Scene> {
    const stage = await Stage.create(plugin)
    const kept = verb === "GC" ? await stage.attach({ keys }) : undefined
    const at = await stage.attach({ keys })
    await at.attachment.add()
    await at.attachment.del()
    await kept?.attachment.add()
    const scene = new Scene(stage, verb, at, kept)
    if (verb === "CHECK") scene.keys = { prevResult: await at.attachment.add() }
    if (kept) scene.keys = { "cni.dev/valid-attachments": [{ containerID: kept.pod.name, ifname: kept.ifName }] }
    scene.#before = await scene.#snapshots()
    return scene
  }

  #snapshots(): Promise<Snapshot[]> {
    const looked = [
      ...(this.#verb !== "GC" || this.#collectsInside ? [this.at] : []),
      ...(this.#kept ? [this.#kept] : []),
    ]
    return Promise.all([takeSnapshot(this.stage.host), ...looked.map(({ pod }) => takeSnapshot(pod))])
  }

  /** Whether GC takes back what is in a container that lives, rather than leave it to the kernel. */
  get #collectsInside(): boolean {
    return ["interface", "delegating"].includes(this.stage.role)
  }

  /** What has to be there before the verb. */
  async prepare(): Promise<void> {
    if (this.#verb === "DEL" || this.#verb === "GC") await this.at.attachment.add()
  }

  /** Does what is owed after the verb; `result` is what it wrote when it succeeded. Returns what did not hold. */
  async finish(result: string | undefined, owed: Owed = "at once"): Promise<string> {
    const { attachment } = this.at
    const said = ({ exitCode, stdout, stderr }: Output) => `exit code ${exitCode}: ${stdout} ${stderr}`
    if (this.#verb === "ADD" && result !== undefined) {
      const prevResult = result === "" ? {} : JSON.parse(result)
      const checked = result === "" ? undefined : await attachment.check(prevResult)
      await attachment.del()
      return checked === undefined || checked.exitCode === 0 ? "" : `ADD succeeded, and CHECK says ${said(checked)}`
    }
    if (this.#verb === "ADD" && owed === "after DEL") await attachment.del()
    if (this.#verb === "DEL" && result === undefined) await attachment.del()
    if ((this.#verb === "GC" || this.#verb === "STATUS") && result === undefined) {
      const again = await attachment.run(this.#verb, this.keys)
      if (again.exitCode !== 0) return `the next ${this.#verb} says ${said(again)}`
    }
    if (this.#verb === "GC" && !this.#collectsInside) await attachment.del()
    return ""
  }

  /** What is not as it was; "" when all is. */
  async difference(): Promise<string> {
    const after = await this.#snapshots()
    const changes = after.flatMap((snapshot, at) => diffSnapshots(this.#before[at] ?? {}, snapshot))
    return formatChanges(changes.filter((change) => !this.#isAllowed(change)))
  }

  #isAllowed(change: Change): boolean {
    const { plugin } = this.stage
    return (
      isKeptOnPurpose(change) ||
      (this.#verb === "GC" && pluginRow(plugin).role === "device" && isLeftToKernel(plugin, change))
    )
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stage[Symbol.asyncDispose]()
  }
}

/** host-local's place in the pool, its lock and its index, under their own names: what has another name is a leftover. */
function isKeptOnPurpose(change: Change): boolean {
  return (
    isAllocationTrace(change) && /\/networks\/[^/]+\/(lock|last_reserved_ip\.\d+|\.?index[^ ]*)?( |$)/.test(change.line)
  )
}
