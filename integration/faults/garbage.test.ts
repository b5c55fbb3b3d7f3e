import { afterAll, beforeAll, expect, test } from "bun:test"
import { join } from "node:path"
import { readReports, sanitizedFlavour, sanitizedPlugins } from "../../scripts/sanitized.ts"
import {
  builtPlugins,
  Chance,
  diffSnapshots,
  expectUnchanged,
  extent,
  formatChanges,
  HostNamespace,
  hasFeature,
  isAllocationTrace,
  isLong,
  pluginRow,
  pluginsAs,
  readShare,
  Stage,
  seed,
  takeSnapshot,
} from "../lab/mod.ts"
import { delegating, makeCall, makeReading, type PluginSetup, prepareSetup } from "./garbage/calls.ts"
import type { CallCase, Case } from "./garbage/case.ts"
import { placed, readCorpus, readRecorded } from "./garbage/corpus.ts"
import { readByLibrary } from "./garbage/library.ts"
import { badDelegates, FuzzProgram } from "./garbage/program.fixture.ts"
import { furnish, seeds } from "./garbage/seeds.fixture.ts"
import { Tally } from "./garbage/tally.ts"

/** Whether the program is built with sanitizers: in the long form and in `npm run test:sanitized`. */
const isSanitized = isLong || builtPlugins === sanitizedPlugins
const dist = join(import.meta.dir, "../../dist")

/** The time limit of a test in the long form. */
const longestMs = 7_000_000

/** The number of cases in one process. A process ends when a sanitizer reports a fault, and runs no further cases. */
const chunk = 500

/** The part of the long form's cases that runs. */
const { from, to } = readShare()
const cases = (quick: number, long: number) => extent(quick, Math.ceil(long * (to - from)))

let program: FuzzProgram
beforeAll(async () => {
  program = isSanitized
    ? await FuzzProgram.build(join(dist, "sanitized/fuzz"), sanitizedFlavour())
    : await FuzzProgram.build(join(dist, "fuzz"))
}, 1_800_000)
afterAll(async () => {
  for (const tally of Object.values(tallies)) await tally.tell()
  await program[Symbol.asyncDispose]()
})

/** The results of the cases, by the program or function that reads the garbage. */
const tallies = {
  call: new Tally("garbage told to a plugin"),
  reading: new Tally("garbage among what a plugin reads"),
  read: new Tally("garbage read by itself"),
  process: new Tally("garbage told to a plugin's process"),
}

/** The plugins for which this kernel has all features. */
const canAdd = pluginsAs().filter((name) => (pluginRow(name).needs ?? []).every((need) => hasFeature(need)))

/** Runs cases. Throws if a case fails or a sanitizer has reported a fault. */
async function run(host: HostNamespace, tally: Tally, cases: readonly Case[]): Promise<void> {
  const since = tally.broken
  for (let at = 0; at < cases.length; at += chunk) tally.add(await program.run(host, cases.slice(at, at + chunk)))
  expect(readReports()).toEqual([])
  tally.requireHeld(since)
}

/**
 * Runs `act`, which deletes an attachment. Throws if the container has changed, or if the host has new lines with the
 * container's name, a veth or a lease.
 */
async function expectGone(stage: Stage, setup: PluginSetup, act: () => Promise<void>): Promise<void> {
  const before = [await takeSnapshot(stage.host), await takeSnapshot(setup.pod)] as const
  await act()
  const changes = diffSnapshots(before[0], await takeSnapshot(stage.host)).filter(
    ({ sign, line }) =>
      sign === "+" &&
      (line.includes(setup.pod.name) || /\bveth[0-9a-f]{8}\b|\/networks\/[^/]+\/[0-9a-f.:]+ /.test(line)),
  )
  expect(formatChanges(changes)).toBe("")
  expectUnchanged(before[1], await takeSnapshot(setup.pod))
}

/** Returns the stored cases of a kind, for a plugin. */
async function found(kind: string, plugin?: string): Promise<Case[]> {
  const all = await readCorpus()
  return all.filter((one) => one.kind === kind && (one.kind === "read" || one.plugin === plugin))
}

test.each(pluginsAs())(
  "%s answers every input by one document, and changes nothing before it has looked",
  async (plugin) => {
    await using stage = await Stage.create(plugin)
    const setup = await prepareSetup(stage, program.bin, canAdd.includes(plugin))
    const chance = new Chance(seed)
    const corpus = (await found("call", plugin)).map((one) => placed(one as CallCase, setup))
    const made = Array.from({ length: cases(60, 4000) }, () => makeCall(chance, setup))
    await expectGone(stage, setup, () => run(stage.host, tallies.call, [...corpus, ...made]))
  },
  longestMs,
)

test.each(canAdd.filter((name) => pluginRow(name).staged !== false))(
  "%s gets an answer of the kernel, a file or a program that is not right, says so, and is deleted after that",
  async (plugin) => {
    await using stage = await Stage.create(plugin)
    const setup = await prepareSetup(stage, program.bin, true)
    const chance = new Chance(seed)
    const made = Array.from({ length: cases(12, 500) }, () => makeReading(chance, setup))
    await expectGone(stage, setup, () => run(stage.host, tallies.reading, made))
  },
  longestMs,
)

test.each(badDelegates)(
  "%s is asked for addresses and ends badly: every verb answers with a sentence",
  async (name) => {
    await using stage = await Stage.create("bridge")
    const setup = await prepareSetup(stage, program.bin, true)
    const asked = ["ADD", "CHECK", "DEL", "GC", "STATUS"].map((verb) => delegating(setup, verb, name))
    await expectGone(stage, setup, () => run(stage.host, tallies.reading, asked))
  },
)

test(
  "answers of the kernel, files, and what servers and programs say are understood, or are errors that plugins expect",
  async () => {
    await using host = await HostNamespace.create()
    const valid = [...(await readRecorded()), ...seeds()]
    await run(host, tallies.read, [...valid, ...(await found("read"))])
    const [times, round] = [cases(60, 16_000), 60] // for each input in one process: some 3,500 cases
    for (let done = 0; done < times; done += round) {
      const varied = { seed: seed + done, times: Math.min(round, times - done) }
      const since = tallies.read.broken
      tallies.read.add(
        await program.run(
          host,
          valid.map((one) => ({ ...one, varied })),
        ),
      )
      tallies.read.requireHeld(since)
    }
    expect(readReports()).toEqual([])
  },
  longestMs,
)

test("this kernel's answers are understood, too", async () => {
  await using host = await HostNamespace.create()
  await furnish(host)
  await run(host, tallies.read, await program.record(host))
})

test(
  "the runtime's library understands what is nearly a cache file or a network, or says what is wrong",
  async () => {
    tallies.read.add(await readByLibrary(seed, cases(200, 20_000)))
    tallies.read.requireHeld()
  },
  longestMs,
)

test.each(canAdd)(
  "%s as it is shipped answers by one document, and what it refuses has left everything as it was",
  async (plugin) => {
    await using stage = await Stage.create(plugin)
    const setup = await prepareSetup(stage, builtPlugins, true)
    const chance = new Chance(seed + 1)
    const refused: CallCase[] = []
    for (const one of Array.from({ length: cases(12, 300) }, () => makeCall(chance, setup))) {
      const isRefused = await answer(stage.host, one)
      if (isRefused) refused.push(one)
      else if (one.env.CNI_COMMAND === "ADD")
        await answer(stage.host, { ...one, env: { ...one.env, CNI_COMMAND: "DEL" } })
    }
    const before = await takeSnapshot(stage.host)
    for (const one of refused) await answer(stage.host, one)
    expectUnchanged(before, await takeSnapshot(stage.host), isAllocationTrace)
    tallies.process.requireHeld()
  },
  longestMs,
)

/** Runs a case as a process. Reports whether the plugin refused the call. */
async function answer(host: HostNamespace, one: CallCase): Promise<boolean> {
  const [file, args] = program.inOwnRoot(join(builtPlugins, one.plugin))
  const input = Buffer.from(one.stdin, "latin1")
  const { stdout, stderr, exitCode } = await host.tryExec(file, args, { env: one.env, input })
  const error = exitCode === 1 ? (JSON.parse(stdout) as { code: unknown; msg: unknown }) : undefined
  const holds = exitCode === 0 || (typeof error?.code === "number" && typeof error.msg === "string" && error.msg !== "")
  const why = `exit code ${exitCode}: ${stdout}\n${stderr}`
  tallies.process.add({ tried: { [one.input]: 1 }, broken: holds ? [] : [{ case: one, why }] })
  return exitCode !== 0
}
