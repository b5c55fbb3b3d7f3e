import {
  type Attached,
  type Change,
  diffSnapshots,
  formatChanges,
  isAllocationTrace,
  isLeftToKernel,
  type Output,
  pluginRow,
  type Snapshot,
  Stage,
  takeSnapshot,
} from "../lab/mod.ts"
import type { Owed } from "./points.ts"

export type Verb = "ADD" | "DEL" | "CHECK" | "GC" | "STATUS"

/** A plugin, with configuration keys if they differ from those of the lab's table. */
export interface Subject {
  readonly plugin: string
  readonly title: string
  readonly keys?: Record<string, unknown>
}

/** A host with an attachment for a verb, and the state that is expected afterward. */
export class Scene implements AsyncDisposable {
  readonly stage: Stage
  readonly #verb: Verb
  readonly at: Attached
  /** An attachment that GC must keep. */
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

  /** Reports whether GC undoes changes in a running container. If false, the kernel undoes them with the namespace. */
  get #collectsInside(): boolean {
    return ["interface", "delegating"].includes(this.stage.role)
  }

  /** Creates the state in which the verb runs. */
  async prepare(): Promise<void> {
    if (this.#verb === "DEL" || this.#verb === "GC") await this.at.attachment.add()
  }

  /**
   * Calls CHECK, DEL or the verb again, as a runtime would. `result` is the verb's output if it succeeded. Returns an
   * error message, or "" if the calls succeed.
   */
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

  /** Returns the differences from the initial state, or "" if there are none. */
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

/**
 * Reports whether a change is host-local's position in the pool, its lock or its index. Returns false for temporary
 * names of these files, which must not remain.
 */
function isKeptOnPurpose(change: Change): boolean {
  return (
    isAllocationTrace(change) && /\/networks\/[^/]+\/(lock|last_reserved_ip\.\d+|\.?index[^ ]*)?( |$)/.test(change.line)
  )
}
