import { expect, test } from "bun:test"
import { existsSync, mkdirSync, rmSync, statSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { addNetwork } from "./add.ts"
import { cachedAttachments } from "./cache.ts"
import { checkNetwork } from "./check.ts"
import { delNetwork } from "./del.ts"
import { gcNetwork } from "./gc.ts"
import { withContainer, withEverything } from "./lock.ts"
import { attachmentOf, failure, Lab, networkOf, waitsWhileExists } from "./testing/lab.ts"

/** Returns an operation that records its start and its end, and runs until `until` is resolved. */
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

test("#230 operations on one container follow one another; other containers do not wait", async () => {
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

test("#230 ADD, CHECK and DEL of one container follow one another", async () => {
  using lab = new Lab()
  const gate = join(lab.root, "gate")
  writeFileSync(gate, "")
  lab.plugin("one", { ADD: { stdout: "{}", script: `[ $CNI_CONTAINERID = c2 ] || ${waitsWhileExists(gate)}` } })
  const network = networkOf([{ type: "one" }])
  const add = addNetwork(lab.runtime, network, attachmentOf())
  while (lab.calls.length === 0) await Bun.sleep(1)
  const del = delNetwork(lab.runtime, network, attachmentOf({ ifName: "net1" }))
  // Another container's operations run first, so that the DEL would have run if it did not wait.
  await addNetwork(lab.runtime, network, attachmentOf({ containerId: "c2" }))
  await checkNetwork(lab.runtime, network, attachmentOf({ containerId: "c2" }))
  expect(lab.calls.map(({ verb, id }) => `${verb} ${id}`)).toEqual(["ADD c1", "ADD c2", "CHECK c2"])
  rmSync(gate)
  await Promise.all([add, del])
  expect(lab.calls.slice(3).map(({ verb, id }) => `${verb} ${id}`)).toEqual(["DEL c1"])
})

test("#223 a collection waits for running operations and holds back new ones", async () => {
  using lab = new Lab()
  const { events, operation } = recorder()
  const gates = [Promise.withResolvers<void>(), Promise.withResolvers<void>()] as const
  const running = withContainer(lab.runtime, "c1", operation("c1", gates[0].promise))
  while (events.length === 0) await Bun.sleep(1)
  const collection = withEverything(lab.runtime, operation("gc", gates[1].promise))
  while (!existsSync(join(lab.cacheDir, "locks/.gc"))) await Bun.sleep(1)
  await elsewhere()
  expect(events).toEqual(["c1 starts"])
  gates[0].resolve()
  while (!events.includes("gc starts")) await Bun.sleep(1)
  const late = withContainer(lab.runtime, "c2", operation("c2", Promise.resolve()))
  await elsewhere()
  expect(events.at(-1)).toBe("gc starts")
  gates[1].resolve()
  await Promise.all([running, collection, late])
  expect(events).toEqual(["c1 starts", "c1 ends", "gc starts", "gc ends", "c2 starts", "c2 ends"])
})

/** Runs operations in another cache directory, so that an operation that does not wait has time to start. */
async function elsewhere(): Promise<void> {
  using lab = new Lab()
  for (const id of ["c1", "c2"]) await withContainer(lab.runtime, id, async () => {})
  await withEverything(lab.runtime, async () => {})
}

test("a lock is free again after an operation that failed", async () => {
  using lab = new Lab()
  const fail = () => Promise.reject(new Error("no"))
  await expect(withContainer(lab.runtime, "c1", fail)).rejects.toThrow("no")
  expect(await withContainer(lab.runtime, "c1", async () => "ran")).toBe("ran")
})

test("#230 the wait for another operation has a deadline, also for DEL: code 11 that names the lock, and nothing runs", async () => {
  using lab = new Lab()
  lab.plugin("one")
  const network = networkOf([{ type: "one" }])
  const hurried = { ...lab.runtime, lockTimeoutMs: 1 }
  const refusal = (name: string) => ({
    code: 11,
    message: `Cannot lock "${join(lab.cacheDir, "locks", name)}": another operation has held it for 0.001 s`,
    details: "the lock ends with its process, after 10 s at the latest",
  })
  await withContainer(lab.runtime, "c1", async () => {
    expect(await failure(addNetwork(hurried, network, attachmentOf()))).toMatchObject(refusal("c1"))
    expect(await failure(delNetwork(hurried, network, attachmentOf()))).toMatchObject(refusal("c1"))
    expect(await failure(gcNetwork(hurried, network, []))).toMatchObject(refusal("c1"))
  })
  await withEverything(lab.runtime, async () => {
    expect(await failure(delNetwork(hurried, network, attachmentOf()))).toMatchObject(refusal(".gc"))
  })
  expect(lab.calls).toEqual([])
})

test("#230 an operation that loses its lock is stopped: its plugin is killed, nothing is undone or kept, code 11", async () => {
  using lab = new Lab()
  const gate = join(lab.root, "gate")
  writeFileSync(gate, "")
  lab.plugin("one", { ADD: { stdout: "{}", script: waitsWhileExists(gate) } })
  lab.plugin("two")
  const network = networkOf([{ type: "one" }, { type: "two" }])
  const add = failure(addNetwork(lab.runtime, network, attachmentOf(), { undo: true }))
  while (lab.calls.length === 0) await Bun.sleep(1)
  rmSync(join(lab.cacheDir, "locks/c1"), { recursive: true }) // like another process, for a lock that looks abandoned
  expect(await add).toMatchObject({ code: 11, message: expect.stringContaining("lost the lock") })
  expect(lab.sequence).toEqual(["ADD one"])
  expect(cachedAttachments(lab.cacheDir)).toEqual([])
})

test("#230 a DEL that loses its lock leaves the cache file, and a collection asks no further plugin", async () => {
  using lab = new Lab()
  const gate = join(lab.root, "gate")
  const waiting = { script: waitsWhileExists(gate) }
  for (const type of ["one", "two"]) lab.plugin(type, { DEL: waiting, GC: waiting })
  const network = networkOf([{ type: "one" }, { type: "two" }])
  await addNetwork(lab.runtime, network, attachmentOf())
  writeFileSync(gate, "")
  for (const { lock, verb, run } of [
    { lock: "c1", verb: "DEL two", run: () => delNetwork(lab.runtime, network, attachmentOf()) },
    {
      lock: ".gc",
      verb: "GC one",
      run: () => gcNetwork(lab.runtime, network, [{ containerId: "c1", ifName: "eth0" }]),
    },
  ]) {
    const before = lab.sequence
    const stopped = failure(run())
    while (lab.calls.length === before.length) await Bun.sleep(1)
    rmSync(join(lab.cacheDir, "locks", lock), { recursive: true })
    expect(await stopped).toMatchObject({ code: 11, message: expect.stringContaining("lost the lock") })
    expect(lab.sequence).toEqual([...before, verb])
  }
  expect(cachedAttachments(lab.cacheDir)).toHaveLength(1)
})

test("#230 a lock that cannot be made is code 5, and nothing runs", async () => {
  using lab = new Lab()
  lab.plugin("one")
  mkdirSync(lab.cacheDir)
  writeFileSync(join(lab.cacheDir, "locks"), "a file where the directory should be")
  const network = networkOf([{ type: "one" }])
  const refusal = (name: string) => ({ code: 5, message: `Cannot lock "${join(lab.cacheDir, "locks", name)}"` })
  expect(await failure(addNetwork(lab.runtime, network, attachmentOf()))).toMatchObject(refusal("c1"))
  expect(await failure(checkNetwork(lab.runtime, network, attachmentOf()))).toMatchObject(refusal("c1"))
  expect(await failure(gcNetwork(lab.runtime, network, []))).toMatchObject(refusal(".gc"))
  expect(lab.calls).toEqual([])
})

test("locks are for root only", async () => {
  using lab = new Lab()
  await withContainer(lab.runtime, "c1", async () => {
    expect(statSync(join(lab.cacheDir, "locks")).mode & 0o777).toBe(0o700)
  })
  expect(existsSync(join(lab.cacheDir, "locks/c1"))).toBe(false)
})

test("#230 the wait for another operation ends when the caller is told to stop, with the reason of that", async () => {
  using lab = new Lab()
  const stop = new AbortController()
  const stopped = { ...lab.runtime, signal: stop.signal }
  const never = () => Promise.reject(new Error("it ran"))
  await withContainer(lab.runtime, "c1", async () => {
    const waiting = [withContainer(stopped, "c1", never), withEverything(stopped, never)]
    // Other operations run first, so that these two are waiting afterward.
    await elsewhere()
    stop.abort(new Error("told to stop"))
    // Awaits both, because either may end first.
    const reasons = await Promise.all(waiting.map(failure))
    expect(reasons.map(String)).toEqual(Array(2).fill("Cannot continue: the operation was interrupted; told to stop"))
    // Also with `ifPossible`, which is only for a lock that cannot be created.
    const cleanup = withContainer(stopped, "c1", never, { ifPossible: true })
    expect(await failure(cleanup)).toMatchObject({ code: 11, details: "told to stop" })
  })
  expect(await withContainer(lab.runtime, "c1", async () => "ran")).toBe("ran")
})

test("an operation is told to stop when its caller is, and when its lock is lost", async () => {
  using lab = new Lab()
  const stop = new AbortController()
  const aborted = await withContainer({ ...lab.runtime, signal: stop.signal }, "c1", async ({ signal }, lost) => {
    stop.abort()
    return [signal?.aborted, lost.aborted]
  })
  expect(aborted).toEqual([true, false])
  const lost = withContainer(lab.runtime, "c1", async ({ signal }, lost) => {
    rmSync(join(lab.cacheDir, "locks/c1"), { recursive: true })
    await new Promise((resolve) => lost.addEventListener("abort", resolve))
    throw new Error(`both are aborted: ${signal?.aborted}`)
  })
  expect(await failure(lost)).toMatchObject({
    code: 11,
    message: `Cannot continue: lost the lock "${join(lab.cacheDir, "locks/c1")}"`,
    details: "this process was suspended for too long, or the lock was removed; its work is only partly done",
  })
})
