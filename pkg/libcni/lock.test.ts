import { expect, test } from "bun:test"
import { withContainer, withEverything } from "./lock.ts"
import { Lab } from "./testing/lab.ts"

/** An operation that records when it starts and ends, and takes as long as it is told. */
function recorder() {
  const events: string[] = []
  return {
    events,
    operation: (name: string, until: Promise<void>) => async () => {
      events.push(`${name} starts`)
      await until
      events.push(`${name} ends`)
    },
  }
}

test("230 operations on one container follow one another; other containers do not wait", async () => {
  using lab = new Lab()
  const { events, operation } = recorder()
  const gate = Promise.withResolvers<void>()
  const first = withContainer(lab.runtime, "c1", operation("c1 first", gate.promise))
  while (events.length === 0) await Bun.sleep(1)
  const second = withContainer(lab.runtime, "c1", operation("c1 second", Promise.resolve()))
  await withContainer(lab.runtime, "c2", operation("c2", Promise.resolve()))
  gate.resolve()
  await Promise.all([first, second])
  expect(events).toEqual([
    "c1 first starts",
    "c2 starts",
    "c2 ends",
    "c1 first ends",
    "c1 second starts",
    "c1 second ends",
  ])
})

test("223 a collection waits for running operations and holds back new ones", async () => {
  using lab = new Lab()
  const { events, operation } = recorder()
  const gates = [Promise.withResolvers<void>(), Promise.withResolvers<void>()] as const
  const running = withContainer(lab.runtime, "c1", operation("c1", gates[0].promise))
  while (events.length === 0) await Bun.sleep(1)
  const collection = withEverything(lab.runtime, operation("gc", gates[1].promise))
  await Bun.sleep(100) // long enough for it to start, if it did not wait
  expect(events).toEqual(["c1 starts"])
  gates[0].resolve()
  while (!events.includes("gc starts")) await Bun.sleep(1)
  const late = withContainer(lab.runtime, "c2", operation("c2", Promise.resolve()))
  await Bun.sleep(100)
  gates[1].resolve()
  await Promise.all([running, collection, late])
  expect(events).toEqual(["c1 starts", "c1 ends", "gc starts", "gc ends", "c2 starts", "c2 ends"])
})

test("a lock is free again after an operation that failed", async () => {
  using lab = new Lab()
  const fail = () => Promise.reject(new Error("no"))
  await expect(withContainer(lab.runtime, "c1", fail)).rejects.toThrow("no")
  expect(await withContainer(lab.runtime, "c1", async () => "ran")).toBe("ran")
})
