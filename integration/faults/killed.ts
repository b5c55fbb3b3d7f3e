import { afterAll, beforeAll, expect } from "bun:test"
import { join } from "node:path"
import { CProgram, isLeftToKernel, isLong, type PluginOutput, seed, tellFigure, waitFor } from "../lab/mod.ts"
import { type Chain, ChainHost, nothingValid } from "./chain.ts"

/** As shells and `kill-at` tell that SIGKILL has ended a program. */
const killedBySignal = 128 + 9

let killAt: CProgram

/** Builds the program that kills others; to be called by each file that kills. */
export function useKillAt(): void {
  beforeAll(async () => {
    killAt = await CProgram.build(join(import.meta.dir, "kill-at.c"))
  })
  afterAll(() => killAt[Symbol.asyncDispose]())
}

/** The command line that kills a plugin at its nth system call, before the kernel does it or when it is done. */
export function killAtCall(when: "before" | "after", nth: number): string[] {
  return [killAt.path, when, String(nth)]
}

/** How what a killed call has left is taken back. */
interface Way {
  readonly what: string
  /** Answers what still differs. */
  recover(scene: ChainHost): Promise<string>
}

const asBefore = async (scene: ChainHost) => (await scene.hostChanges()) + (await scene.containerChanges())

/** The kernel removes in its own time what a namespace that has gone had; a virtual device of the host it does not give back. */
async function afterContainer(scene: ChainHost): Promise<string> {
  const isDevice = (change: Parameters<typeof isLeftToKernel>[1]) =>
    scene.movesDevice && isLeftToKernel("host-device", change)
  const last = { changes: "" }
  await waitFor(async () => {
    last.changes = await scene.hostChanges(isDevice)
    return last.changes === ""
  }, "the kernel").catch(() => undefined)
  if (last.changes === "") await scene.replaceContainer()
  return last.changes
}

/** A configuration with which nothing could be added as before: all that a plugin may be without is left out, and the addresses are others. */
function changed({ cniVersion, name, type, ipam }: { [key: string]: unknown }): object {
  const other = ipam as { type: string } | undefined
  const pool = other?.type === "host-local" ? { ranges: [[{ subnet: "10.99.0.0/24" }]] } : {}
  return { cniVersion, name, type, ...(other ? { ipam: { type: other.type, ...pool } } : {}) }
}

/** What comes after a call that was killed: the first is what a runtime does. */
const ways: readonly Way[] = [
  {
    what: "DEL",
    async recover(scene) {
      await scene.del()
      return asBefore(scene)
    },
  },
  {
    what: "DEL with the result of an earlier ADD",
    async recover(scene) {
      await scene.del({ prevResult: scene.answer })
      return asBefore(scene)
    },
  },
  {
    what: "DEL that is not told the namespace, which goes then",
    async recover(scene) {
      await scene.del({}, { netns: "" })
      await scene.removeContainer()
      return afterContainer(scene)
    },
  },
  {
    what: "DEL after the namespace has gone",
    async recover(scene) {
      await scene.removeContainer()
      await scene.del({ prevResult: scene.answer })
      return afterContainer(scene)
    },
  },
  {
    what: "DEL by a changed configuration",
    async recover(scene) {
      await scene.del({}, {}, changed as (own: object) => object)
      return asBefore(scene)
    },
  },
  {
    what: "GC with no valid attachment",
    async recover(scene) {
      await scene.collect()
      const isInUse = (change: Parameters<typeof isLeftToKernel>[1]) =>
        scene.movesDevice && isLeftToKernel("host-device", change)
      const changes = await scene.hostChanges(isInUse)
      await scene.del()
      return changes + (scene.movesDevice ? await asBefore(scene) : await scene.containerChanges())
    },
  },
]

/** A verb, what was done before it, and what has to hold after a kill. */
export interface Killed {
  readonly verb: "ADD" | "DEL" | "GC" | "CHECK" | "STATUS"
  /** How many points of a plugin the quick form tries. */
  readonly quick: number
  /** Whether the long form tries each system call with each way, not only with the next in turn. */
  readonly eachWay?: boolean
}

/** One system call of one plugin of a chain. */
interface Point {
  readonly nth: number
  readonly when: "before" | "after"
  readonly way: Way
}

/** The points to try of a call that makes `total` system calls: all, or some that are spread over it and shifted by the seed. */
export function pointsOf(total: number, { quick, eachWay }: Omit<Killed, "verb">): Point[] {
  const point = (at: number, way: number): Point => ({
    nth: (at >> 1) + 1,
    when: at % 2 === 0 ? "before" : "after",
    way: ways[way % ways.length] as Way,
  })
  if (!isLong) {
    const count = Math.min(quick, 2 * total)
    const step = (2 * total) / count
    return Array.from({ length: count }, (_, n) => point(Math.floor(n * step + (seed % step)), n + seed))
  }
  const all = Array.from({ length: 2 * total }, (_, at) => at)
  if (!eachWay) return all.map((at) => point(at, (at >> 1) + (at % 2) * 3))
  // Before and after take turns: what lies between two calls is seen from both sides.
  return all
    .filter((at) => at % 2 === 0)
    .flatMap((at) => ways.map((_, way) => point(at + ((way + (at >> 1)) % 2), way)))
}

/** Runs a verb of the plugin at a place of the chain, after all that a runtime has run before. */
async function run(
  scene: ChainHost,
  verb: Killed["verb"],
  at: number,
  under: readonly string[],
): Promise<PluginOutput> {
  if (verb === "ADD") {
    const told = await scene.add(at)
    return scene.calls(verb)[at]?.attachment.run(verb, told, { under }) as Promise<PluginOutput>
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

/** What still differs after a plugin was killed at a point; undefined when it ended before that. */
async function tryPoint(scene: ChainHost, verb: Killed["verb"], at: number, point: Point): Promise<string | undefined> {
  const { exitCode, stdout } = await run(scene, verb, at, killAtCall(point.when, point.nth))
  if (exitCode !== killedBySignal && exitCode !== 0) return `ended with ${exitCode}: ${stdout}`
  const isReading = verb === "CHECK" || verb === "STATUS"
  const changes = isReading
    ? (await scene.hostChanges()) + (await scene.containerChanges())
    : await point.way.recover(scene)
  return exitCode === 0 && changes === "" ? undefined : changes
}

/** Kills each plugin of a chain at system calls of some verbs; tells how many points were tried and held, and throws unless all did. */
export async function killChain(title: string, chain: Chain, verbs: readonly Killed[]): Promise<void> {
  const failures: string[] = []
  const [tried, counts] = [{ points: 0 }, [] as string[]]
  let scene = await ChainHost.create(chain)
  try {
    for (const killed of verbs) {
      const { verb } = killed
      const isReading = verb === "CHECK" || verb === "STATUS"
      const before = tried.points
      for (const at of chain.killed ?? chain.plugins.keys()) {
        const type = chain.plugins[at]?.type
        if (isReading) {
          await scene.add()
          await scene.remember()
        }
        const { exitCode, stderr, stdout } = await run(scene, verb, at, killAtCall("before", 0))
        expect({ exitCode, stdout, type }).toMatchObject({ exitCode: 0 })
        const total = Number(/(\d+) calls\n$/.exec(stderr)?.[1])
        expect(total).toBeGreaterThan(10)
        if (!isReading) await scene.del()
        for (const point of pointsOf(total, killed)) {
          const changes = await tryPoint(scene, verb, at, point).catch((error: unknown) => `${error}`)
          if (changes === undefined) continue
          tried.points++
          if (changes !== "") {
            failures.push(`${verb} of ${type} killed ${point.when} call ${point.nth}; ${point.way.what}:\n${changes}`)
          }
          if (changes === "" && !(scene.movesDevice && /namespace/.test(point.way.what))) continue
          await scene[Symbol.asyncDispose]()
          scene = await ChainHost.create(chain)
          if (isReading) {
            await scene.add()
            await scene.remember()
          }
        }
        if (isReading) await scene.del()
        if (isReading) await scene.remember()
      }
      counts.push(`${verb} ${tried.points - before}`)
    }
  } finally {
    await scene[Symbol.asyncDispose]()
  }
  await tellFigure({ what: title, tried: tried.points, held: tried.points - failures.length, note: counts.join(", ") })
  if (failures.length > 0)
    throw new Error(`${failures.length} of ${tried.points} points:\n${failures.slice(0, 5).join("\n")}`)
}
