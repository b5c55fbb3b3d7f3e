import { expect, test } from "bun:test"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { within } from "../integration/lab/mod.ts"
import { randomHex } from "../pkg/libc/mod.ts"
import type { ListedRoute } from "../pkg/netlink/mod.ts"
import { formatCidr, formatIp, parseIp } from "../pkg/types/mod.ts"
import { openNodeFiles } from "./engine/node-files.ts"
import type { LogEvent, Surroundings } from "./engine/surroundings.ts"
import type { RouteKernel } from "./routes/keeper.ts"
import { changesFor } from "./routes/plan.ts"
import { type Identity, StoreError } from "./store.ts"
import { World } from "./testing/world.ts"
import { podCidrWork, poolWork, together } from "./work.ts"

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

/** The agent of "a" with the routes of its node, beside the agent of "b"; all blocks are subnets, and no node is seen by another way. */
async function withRoutes() {
  const world = new World({ routing: "host-gw" })
  const table = new Map<string, string>()
  const store = world.cluster.open()
  const state = { addresses: ["192.0.2.1"], identify: () => store.identity() }
  const identity = store.identity.bind(store)
  state.identify = identity
  store.identity = () => state.identify()
  const { clock, log } = world
  const surroundings = { store, clock, node: world.node("a"), randomHex, log: (event: LogEvent) => log.push(event) }
  const kernel: RouteKernel = {
    addresses: () => state.addresses,
    sync(plan) {
      const parse = (text: string) => parseIp(text) ?? expect.unreachable()
      const present = [...table].map(([prefix, gateway]) => {
        const [ip = "", length] = prefix.split("/")
        return { dst: parse(ip), prefix: Number(length), gateway: parse(gateway) } as ListedRoute
      })
      const { removed, added } = changesFor(plan, present)
      for (const { dst, prefix } of removed) table.delete(formatCidr({ ip: dst, prefix }))
      for (const { block, gateway } of added) table.set(formatCidr(block), formatIp(gateway))
      return { added: added.length, removed: removed.length, faults: plan.faults }
    },
    async follow(_, signal) {
      await clock.sleep(Number.MAX_SAFE_INTEGER, signal)
    },
  }
  const work = poolWork(surroundings, kernel)
  const ended = new AbortController()
  const running = work.run(ended.signal)
  world.start("b", { addresses: ["192.0.2.2"] })
  await clock.advance(2_000)
  const routesOf = (name: string, gateway: string) =>
    Object.fromEntries(world.blocksOf(name).map((each) => [each, gateway]))
  return {
    world,
    work,
    state,
    routes: () => Object.fromEntries(table),
    expected: (gateway = "192.0.2.2") => routesOf("b", gateway),
    async fill(count: number) {
      for (let at = 0; at < count; at++) {
        world.node("b").add(`pod-${at}`)
        await clock.advance(200)
      }
    },
    async [Symbol.asyncDispose]() {
      ended.abort()
      await within(running, "the agent to end")
      await world.stop()
    },
  }
}

test("routes to blocks that a store from a backup does not know stay until an operator has accepted it", async () => {
  await using at = await withRoutes()
  const restore = at.world.cluster.backup()
  await at.fill(30)
  const routes = at.expected()
  expect(Object.keys(routes).length).toBeGreaterThan(1)
  expect(at.routes()).toEqual(routes)
  await at.world.engines.get("b")?.stop() // it cannot say again what it has
  restore()
  await at.world.clock.advance(600_000)
  expect(at.work.status().store.stopped).toContain("it went back from revision ")
  expect(at.routes()).toEqual(routes)
  const { engine } = at.world.start("b", { addresses: ["192.0.2.7"] })
  await at.world.clock.advance(2_000)
  expect(at.routes()).toEqual(at.expected("192.0.2.7")) // it has said what it has, and where it is now
  at.work.acceptStore()
  engine.acceptStore()
  await at.world.clock.advance(2_000)
  for (let count = 0; count < 30; count++) at.world.node("b").del(`pod-${count}`)
  await at.world.clock.advance(60_000)
  expect(Object.keys(at.expected()).length).toBeLessThan(Object.keys(routes).length)
  expect(at.routes()).toEqual(at.expected("192.0.2.7"))
})

test("a store from a backup that an operator accepts is believed, also where it does not know a block", async () => {
  await using at = await withRoutes()
  const before = at.expected()
  const restore = at.world.cluster.backup()
  await at.fill(30)
  await at.world.engines.get("b")?.stop()
  restore()
  await at.world.clock.advance(60_000)
  expect(at.routes()).toEqual(at.expected())
  at.work.acceptStore()
  await at.world.clock.advance(2_000)
  expect(at.routes()).toEqual(before)
})

/** No answer yet, or none at all. */
const silent = () => Promise.reject<Identity>(new StoreError("no answer", "unknown"))

/** Has "b" give blocks back, of which the watches tell by all records that there are then. */
async function giveBackInGap(at: Awaited<ReturnType<typeof withRoutes>>): Promise<void> {
  at.world.cluster.isDeaf = true
  for (let count = 0; count < 30; count++) at.world.node("b").del(`pod-${count}`)
  await at.world.clock.advance(10_000)
  at.world.cluster.makeGap()
  await at.world.clock.advance(10_000)
}

test("a route goes only after it is known that the records are of the same store", async () => {
  await using at = await withRoutes()
  await at.fill(30)
  const [routes, identify] = [at.routes(), at.state.identify]
  at.state.identify = silent
  await giveBackInGap(at)
  expect(Object.keys(at.expected()).length).toBeLessThan(Object.keys(routes).length)
  expect(at.routes()).toEqual(routes)
  at.state.identify = identify
  await at.world.clock.advance(60_000)
  expect(at.routes()).toEqual(at.expected())
})

test("an answer to a question that was asked before the records came says nothing of them", async () => {
  await using at = await withRoutes()
  await at.fill(30)
  const [routes, identify] = [at.routes(), at.state.identify]
  const { promise, resolve } = Promise.withResolvers<void>()
  at.state.identify = async () => {
    at.state.identify = silent
    const answer = await identify()
    await promise
    return answer
  }
  at.world.cluster.makeGap()
  await at.world.clock.advance(1_000)
  await giveBackInGap(at)
  resolve()
  await at.world.clock.advance(60_000)
  expect(at.routes()).toEqual(routes)
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
