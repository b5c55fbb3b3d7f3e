/**
 * Kills the listener at a system call, or makes a system call fail, while the host loses its rules. The listener must
 * continue, or the next listener must restore everything. `npm run test:faults -- reconcile` tries every call.
 */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { join } from "node:path"
import { type Call, type Point, parseCalls, pointsOf } from "../faults/points.ts"
import { Chance, CProgram, extent, scaleTimeout, seed, tellFigure, waitFor } from "../lab/mod.ts"
import { RunningListener } from "./listener-lab.ts"
import { ReconcileLab, some, withoutLocalnetRecord } from "./reconcile-lab.ts"

let [killAt, faultAt]: CProgram[] = []
beforeAll(async () => {
  const build = (name: string) => CProgram.build(join(import.meta.dir, `../faults/${name}.c`))
  ;[killAt, faultAt] = await Promise.all([build("kill-at"), build("fault-at")])
})
afterAll(async () => {
  await killAt?.[Symbol.asyncDispose]()
  await faultAt?.[Symbol.asyncDispose]()
})

/** A node with pods that loses its rules before each try. */
class Meeting implements AsyncDisposable {
  readonly lab: ReconcileLab
  readonly #rules: string

  private constructor(lab: ReconcileLab, rules: string) {
    this.lab = lab
    this.#rules = rules
  }

  static async create(): Promise<Meeting> {
    const lab = await ReconcileLab.create()
    await lab.addPods(2)
    return new Meeting(lab, withoutLocalnetRecord(await lab.ruleSet()).join("\n"))
  }

  async #isWhole(): Promise<boolean> {
    return withoutLocalnetRecord(await this.lab.ruleSet()).join("\n") === this.#rules
  }

  /**
   * Runs a listener under the command `under`, and deletes the rules when the listener is ready. Stops the listener
   * when it has restored the rules. With `mayLose`, for calls that always fail, also stops it when it reports that it
   * cannot restore them. Returns its output.
   */
  async meet(under: readonly string[], mayLose = false): Promise<{ said: string; hasEnded: boolean }> {
    await using listener = await RunningListener.startUnder(this.lab.node, under)
    await this.lab.host.exec("nft", ["flush", "ruleset"])
    const where = `under "${under.slice(1).join(" ")}"`
    await waitFor(
      async () =>
        listener.hasEnded || (await this.#isWhole()) || (mayLose && listener.said.includes("cannot restore ")),
      `the rules to be there again, or the listener to end, ${where}`,
    )
    const hasEnded = listener.hasEnded || !(await listener.askToEnd())
    await waitFor(() => listener.hasEnded, `the listener to end after SIGTERM, ${where}`)
    return { said: await listener.ended, hasEnded }
  }

  /** Checks that the next listener restores everything. */
  async expectConverged(what: string): Promise<void> {
    if (!(await this.#isWhole())) {
      await using listener = await RunningListener.start(this.lab.node)
      await waitFor(() => this.#isWhole(), `the rules to be there again after ${what}`)
      expect(await listener.end()).toBe(0)
    }
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.lab[Symbol.asyncDispose]()
  }
}

test(
  "killed at any of its system calls: the listener that is started next makes all good",
  async () => {
    await using meeting = await Meeting.create()
    const path = killAt?.path ?? ""
    const { said } = await meeting.meet([path, "before", "1000000000"])
    const total = Number(/^(\d+) calls$/m.exec(said)?.[1])
    expect(total).toBeGreaterThan(100)
    const points = Array.from({ length: total }, (_, at) => ({ nth: at + 1, when: at % 2 === 0 ? "before" : "after" }))
    let kills = 0
    for (const { nth, when } of some(points, 20)) {
      const { hasEnded } = await meeting.meet([path, when, String(nth)])
      if (hasEnded) kills++
      await meeting.expectConverged(`SIGKILL ${when} call ${nth}`)
    }
    expect(kills).toBeGreaterThan(extent(10, total / 2))
    await tellFigure({
      what: "the listener killed at its system calls",
      tried: kills,
      held: kills,
      note: `of ${total}`,
    })
  },
  scaleTimeout(extent(600_000, 7_200_000)),
)

/** Matches a line with the reason why the listener ended. */
const WHY_ENDED = /^(cni reconcile: (?!listening|restored|cannot restore)|Cannot |SyscallError: )/m
/** The maximum number of output lines, because a permanent failure is reported only once. */
const FEW_LINES = 30

/** Reports whether a fault makes a system call fail, once or from then on. */
const isOfCall = ({ fault }: Point) =>
  fault.startsWith("fail:") || fault.startsWith("always:") || fault.startsWith("disk:")

test(
  "a system call that fails, once or from then on: the listener goes on, or ends with a message, and all is made good",
  async () => {
    await using meeting = await Meeting.create()
    const path = faultAt?.path ?? ""
    const log = meeting.lab.node.directory.join("calls")
    await meeting.meet([path, log, "list"])
    const calls: Call[] = parseCalls(await Bun.file(log).text())
    expect(calls.length).toBeGreaterThan(100)
    const points = some(pointsOf(calls, new Chance(seed)).filter(isOfCall), 30)
    for (const { fault, call } of points) {
      const { said, hasEnded } = await meeting.meet([path, log, fault], !fault.startsWith("fail:"))
      if (hasEnded) expect({ fault, call, said }).toMatchObject({ said: expect.stringMatching(WHY_ENDED) })
      if (said.split("\n").length > FEW_LINES) throw new Error(`with ${fault} the listener goes on telling: ${said}`)
      await meeting.expectConverged(`${fault} at ${JSON.stringify(call)}`)
    }
    await tellFigure({ what: "the listener with a system call that fails", tried: points.length, held: points.length })
  },
  scaleTimeout(extent(600_000, 14_400_000)),
)
