import { expect, test } from "bun:test"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { openNodeFiles } from "./engine/node-files.ts"
import type { Surroundings } from "./engine/surroundings.ts"
import { StoreError } from "./store.ts"
import { podCidrWork, together } from "./work.ts"

/** An agent that copies podCIDRs, on a directory of its own; the test says what the cluster tells. */
function scene(tell: (signal: AbortSignal) => AsyncGenerator<readonly string[]>) {
  const directory = mkdtempSync(join(tmpdir(), "agent-work-"))
  writeFileSync(join(directory, "machine-id"), "m\n")
  const owner = { name: "node-1", uid: "u", machineId: "m" }
  const node = openNodeFiles({
    poolDir: join(directory, "pools"),
    dataDir: join(directory, "networks"),
    owner,
    log: () => {},
    machineIdFile: join(directory, "machine-id"),
  })
  const ended = new AbortController()
  const clock = { bootMs: () => 5000, bootId: "b", sleep: async () => ended.abort() }
  const surroundings = { store: { name: "Kubernetes" }, clock, node, randomHex: () => "", log: () => {} }
  return {
    work: podCidrWork(surroundings as unknown as Surroundings, { network: "pods", follow: tell }),
    signal: ended.signal,
    node,
    [Symbol.dispose]: () => rmSync(directory, { recursive: true }),
  }
}

test("podCIDRs are the blocks of a pool with the network's name, ready as soon as its file is written", async () => {
  using at = scene(async function* () {
    yield ["10.244.1.0/24", "fd00:244:1::/64"]
  })
  expect(at.work.missing()).toEqual(['pool "pods" has no file yet'])
  await at.work.run(at.signal)
  expect(at.work.missing()).toEqual([])
  expect(at.node.readPool("pods")?.sets.map(({ blocks }) => blocks)).toEqual([["10.244.1.0/24"], ["fd00:244:1::/64"]])
  const { store, pools, routes } = at.work.status()
  expect(store).toEqual({ name: "Kubernetes", lastContactS: 0, requests: 0, writes: 0, watchEvents: 1 })
  expect(pools[0]?.prefixes.map(({ prefix, used }) => [prefix, used])).toEqual([
    ["10.244.1.0/24", 0],
    ["fd00:244:1::/64", 0],
  ])
  expect(Number(pools[0]?.prefixes[0]?.free)).toBeGreaterThan(250)
  expect(routes).toBeUndefined()
  expect(() => at.work.acceptStore()).toThrow("has no store to accept")
})

test("a store that cannot be reached is a fault in the status", async () => {
  // biome-ignore lint/correctness/useYield: it fails before its first word
  using at = scene(async function* () {
    throw new StoreError("the API server does not answer", "refused")
  })
  await at.work.run(at.signal)
  expect(at.work.status().store.fault).toBe("the API server does not answer")
})

test("of parts that work together one that fails ends the others", async () => {
  const ended: string[] = []
  const untilAborted = async (signal: AbortSignal) => {
    const { promise, resolve } = Promise.withResolvers<void>()
    signal.addEventListener("abort", () => resolve())
    await promise
    ended.push("other")
  }
  const fail = async () => {
    throw new Error("a fault")
  }
  const all = together(new AbortController().signal, (signal) => [untilAborted(signal), fail()])
  expect(await all.catch(({ message }) => message)).toBe("a fault")
  expect(ended).toEqual(["other"])
})
