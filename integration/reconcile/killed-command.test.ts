/**
 * Kills `cni reconcile` or one of its plugins at a system call, or makes a system call fail. The command must report
 * the failure, and its next run must restore everything. `npm run test:faults -- reconcile/killed-command` tries every
 * call.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { chmod, rename } from "node:fs/promises"
import { join } from "node:path"
import { type Call, type Point, parseCalls, pointsOf } from "../faults/points.ts"
import { Chance, CProgram, extent, type Output, scaleTimeout, seed, tellFigure } from "../lab/mod.ts"
import { type Published, ReconcileLab, some, withoutLocalnetRecord } from "./reconcile-lab.ts"

let [killAt, faultAt]: CProgram[] = []
beforeAll(async () => {
  const build = (name: string) => CProgram.build(join(import.meta.dir, `../faults/${name}.c`))
  ;[killAt, faultAt] = await Promise.all([build("kill-at"), build("fault-at")])
})
afterAll(async () => {
  await killAt?.[Symbol.asyncDispose]()
  await faultAt?.[Symbol.asyncDispose]()
})

/** The command and the plugins that it executes. */
const programs = ["cni", "bridge", "portmap"] as const
type Program = (typeof programs)[number]

/** A node that loses its bridge and its rules before each try. */
class Loss implements AsyncDisposable {
  readonly #lab: ReconcileLab
  readonly #pods: readonly Published[]
  readonly #rules: string

  private constructor(lab: ReconcileLab, pods: readonly Published[], rules: string) {
    this.#lab = lab
    this.#pods = pods
    this.#rules = rules
  }

  /** Creates a node on which a script executes each plugin, so that a program can trace a plugin that restores. */
  static async create(): Promise<Loss> {
    const lab = await ReconcileLab.create()
    const pods = await lab.addPods(2)
    await lab.node.useOwnPlugins(async (directory) => {
      for (const name of programs.slice(1)) {
        const [file, real] = [join(directory, name), join(directory, "real", name)]
        await Bun.write(join(directory, "real", "none"), "")
        await rename(file, real)
        const traced = `[ "$1" != restore ] || exec $(cat '${file}.under' 2>/dev/null) '${real}' "$@"`
        await Bun.write(file, `#!/bin/sh\n${traced}\nexec '${real}' "$@"\n`)
        await chmod(file, 0o755)
      }
    })
    return new Loss(lab, pods, await Loss.#rulesOf(lab))
  }

  static async #rulesOf(lab: ReconcileLab): Promise<string> {
    return withoutLocalnetRecord(await lab.ruleSet()).join("\n")
  }

  get log(): string {
    return this.#lab.node.directory.join("calls")
  }

  /** Deletes the rules and the bridge, and runs `cni reconcile`. The command `under` runs `program`. */
  async run(program: Program, under: readonly string[]): Promise<Output> {
    await this.#lab.host.exec("sh", ["-ec", "nft flush ruleset; ip link delete cni0"])
    if (program === "cni") return this.#lab.node.cni(["reconcile"], {}, under)
    const file = join(this.#lab.node.binDir, `${program}.under`)
    await Bun.write(file, under.join(" "))
    const output = await this.#lab.node.cni(["reconcile"])
    await Bun.write(file, "")
    return output
  }

  async isWhole(): Promise<boolean> {
    const { restored } = await this.#lab.reconcile("--dry-run")
    return restored.length === 0 && (await Loss.#rulesOf(this.#lab)) === this.#rules
  }

  /** Checks that the next run restores everything. */
  async expectConverged(what: string): Promise<void> {
    const { failed } = await this.#lab.reconcile()
    expect({ what, failed, isWhole: await this.isWhole() }).toEqual({ what, failed: [], isWhole: true })
  }

  async expectTraffic(): Promise<void> {
    await this.#lab.expectTraffic(this.#pods)
    await this.#lab.expectNothingLeft(this.#pods)
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#lab[Symbol.asyncDispose]()
  }
}

describe.each(programs)("%s", (program) => {
  test(
    "killed at any of its system calls: the next cni reconcile makes all good",
    async () => {
      await using loss = await Loss.create()
      const path = killAt?.path ?? ""
      const { stderr } = await loss.run(program, [path, "before", "1000000000"])
      const total = Number(/(\d+) calls$/m.exec(stderr)?.[1])
      expect(total).toBeGreaterThan(50)
      await loss.expectConverged("no kill")
      const all = Array.from({ length: total }, (_, at) => ({ nth: at + 1, when: at % 2 === 0 ? "before" : "after" }))
      const points = some(all, 8)
      let kills = 0
      for (const { nth, when } of points) {
        const output = await loss.run(program, [path, when, String(nth)])
        const isKilled = program === "cni" ? output.exitCode === 137 : output.stderr.includes(`what ${program} has`)
        if (isKilled) kills++
        expect({ nth, when, exitCode: output.exitCode === 0 }).toEqual({ nth, when, exitCode: !isKilled })
        await loss.expectConverged(`SIGKILL ${when} call ${nth}`)
      }
      expect(kills).toBeGreaterThan(points.length / 2)
      await loss.expectTraffic()
      await tellFigure({ what: `${program} of cni reconcile killed at its system calls`, tried: kills, held: kills })
    },
    scaleTimeout(extent(600_000, 7_200_000)),
  )

  test(
    "a system call that fails, once or from then on, or a full disk: it says so, or all is there, and the next one makes all good",
    async () => {
      await using loss = await Loss.create()
      const path = faultAt?.path ?? ""
      await loss.run(program, [path, loss.log, "list"])
      const calls: Call[] = parseCalls(await Bun.file(loss.log).text())
      expect(calls.length).toBeGreaterThan(50)
      await loss.expectConverged("no fault")
      const points = some(pointsOf(calls, new Chance(seed)).filter(isOfCall), 8)
      for (const { fault, call } of points) {
        const { exitCode, stderr } = await loss.run(program, [path, loss.log, fault])
        const what = `${fault} at ${JSON.stringify(call)}`
        if (exitCode === 0)
          expect({ what, stderr, isWhole: await loss.isWhole() }).toMatchObject({ what, isWhole: true })
        else expect({ what, exitCode, stderr }).toMatchObject({ what, stderr: expect.stringMatching(SAID) })
        await loss.expectConverged(what)
      }
      await loss.expectTraffic()
      const tried = points.length
      await tellFigure({ what: `${program} of cni reconcile with a system call that fails`, tried, held: tried })
    },
    scaleTimeout(extent(600_000, 14_400_000)),
  )
})

/** Matches a message about an object that could not be restored. */
const SAID = /^(cni[ :]|Cannot |bridge|portmap)/m

/** Reports whether a fault makes a system call fail, once or from then on. */
const isOfCall = ({ fault }: Point) =>
  fault.startsWith("fail:") || fault.startsWith("always:") || fault.startsWith("disk:")
