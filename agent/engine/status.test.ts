import { expect, test } from "bun:test"
import { SyscallError } from "../../pkg/libc/mod.ts"
import { keyOf } from "../records.ts"
import { podPool, World } from "../testing/world.ts"

const ENOSPC = 28

test("an agent that starts while the store is down tells the pools of its files, and the cluster's when the store is back", async () => {
  const world = new World()
  world.start("a")
  await world.clock.advance(2000)
  world.node("a").add("pod")
  const [block = ""] = world.blocksOf("a")
  await world.engines.get("a")?.stop()
  world.cluster.isDown = true
  const { engine } = world.start("a")
  await world.clock.advance(5000)
  const prefix = {
    prefix: "10.64.0.0/24",
    blocks: [{ prefix: block, state: "owned" as const, used: 1 }],
    used: 1,
    free: "12",
  }
  const pool = { name: "pods", network: "pods-net", file: "/pools/pods.json", fixed: {} }
  expect(engine.status()).toMatchObject({ store: { fault: "no answer" }, lost: [] })
  expect(engine.status().pools).toEqual([{ ...pool, prefixes: [prefix] }])
  world.cluster.isDown = false
  await world.clock.advance(60_000)
  const cluster = { free: "15", owned: 1, quarantined: 0 }
  expect(engine.status().pools).toEqual([{ ...pool, prefixes: [{ ...prefix, recorded: [block], cluster }] }])
  await world.stop()
})

test("a pool that the store has no longer, and of which the node has blocks, is a fault until it is there again", async () => {
  const world = new World()
  const { engine } = world.start("a")
  await world.clock.advance(2000)
  const [block = ""] = world.blocksOf("a")
  world.cluster.put("registry", keyOf.registry(), { pools: {} })
  await world.clock.advance(2000)
  const fault = `The store has no pool "pods", and this node has ${block} of it: create the pool again, or remove "/pools/pods.json" when no container has an address of it`
  const blocks = [{ prefix: block, state: "owned" as const, used: 0 }]
  const prefix = { prefix: "10.64.0.0/24", blocks, used: 0, free: "13" }
  expect(engine.status().pools).toEqual([
    { name: "pods", network: "pods-net", file: "/pools/pods.json", fault, prefixes: [prefix], fixed: {} },
  ])
  expect(world.log.filter(({ message }) => message === fault)).toMatchObject([{ level: "warning", pool: "pods" }])
  world.cluster.put("registry", keyOf.registry(), { pools: { pods: podPool } })
  await world.clock.advance(2000)
  expect(engine.status().pools).toMatchObject([{ name: "pods", prefixes: [{ cluster: { owned: 1 } }] }])
  expect(engine.status().pools[0]?.fault).toBeUndefined()
  expect(world.blocksOf("a")).toEqual([block])
  await world.stop()
})

test("a block that the store says is this node's is told while the disk takes no file with it", async () => {
  const world = new World({ prefixes: [{ prefix: "10.64.0.0/27", blockLength: 28, reserved: [] }] })
  const { engine } = world.start("a")
  await world.clock.advance(2000)
  const [block = ""] = world.blocksOf("a")
  world.node("a").diskFault = new SyscallError("write", ENOSPC)
  for (let at = 0; at < 10; at++) world.node("a").add(`pod-${at}`)
  await world.clock.advance(2000)
  const [prefix] = engine.status().pools[0]?.prefixes ?? []
  expect(prefix?.blocks.map((each) => each.prefix)).toEqual([block])
  expect(prefix?.recorded?.toSorted()).toEqual(["10.64.0.0/28", "10.64.0.16/28"])
  await world.stop()
})
