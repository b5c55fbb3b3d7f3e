import { expect, test } from "bun:test"
import { Chance } from "../../integration/lab/mod.ts"
import type { Kind } from "../records.ts"
import { type Store, StoreError, type WatchEvent } from "../store.ts"
import { TestClock } from "../testing/world.ts"
import { View } from "./view.ts"

const MINUTE = 60_000

/** The times at which so many agents ask for the blocks, while each of these watches breaks after it has told `events`. */
async function askedBy(agents: number, minutes: number, events: readonly WatchEvent<Kind>[]): Promise<number[][]> {
  const clock = new TestClock()
  const ended = new AbortController()
  const beganMs = clock.now
  const following: Promise<void>[] = []
  const asked = Array.from({ length: agents }, (_, at) => {
    const times: number[] = []
    const chance = new Chance(at * 7919 + 1)
    for (let warm = 0; warm < 20; warm++) chance.below(2)
    const store = {
      async *watch(kind: Kind, signal: AbortSignal) {
        if (kind !== "block") return await clock.sleep(10 * minutes * MINUTE, signal)
        times.push(clock.now - beganMs)
        yield* events
        throw new StoreError("there is no leader", "unknown")
      },
    } as unknown as Store
    const randomHex = (bytes: number) =>
      Array.from({ length: bytes }, () => chance.below(256).toString(16).padStart(2, "0")).join("")
    following.push(new View().follow({ store, clock, randomHex }, ended.signal, () => {}))
    return times
  })
  await clock.advance(minutes * MINUTE)
  ended.abort()
  await Promise.all(following)
  return asked
}

test("agents whose watches break at one moment do not ask for all records at one moment", async () => {
  const asked = await askedBy(100, 1, [])
  expect(new Set(asked.map(([first]) => first)).size).toBe(1)
  for (const nth of [1, 2, 5]) expect(new Set(asked.map((times) => times[nth])).size).toBeGreaterThan(50)
})

test.each([
  ["tells nothing", []],
  ["tells all records", [{ type: "all", records: [] } as const]],
])(
  "a watch that %s and breaks is begun again less and less often, and at least every 30 seconds",
  async (_, events) => {
    for (const times of await askedBy(5, 10, events)) {
      expect(times.length).toBeLessThan(100)
      const waits = times.slice(1).map((time, at) => time - (times[at] ?? 0))
      expect(Math.max(...waits)).toBeGreaterThan(10_000)
      expect(Math.max(...waits)).toBeLessThanOrEqual(30_000)
    }
  },
)
