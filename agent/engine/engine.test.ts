import { describe, expect, test } from "bun:test"
import { World } from "../testing/world.ts"

/** Runs a test in a world, whose agents it ends. */
function inWorld(title: string, work: (world: World) => Promise<void>, pool = {}): void {
  test(title, async () => {
    const world = new World(pool)
    await work(world)
    expect(world.doubles()).toEqual([])
    await world.stop()
    for (const each of world.engines.values()) expect(each.error).toBeUndefined()
  })
}

describe("an agent", () => {
  inWorld("claims a block, writes it to the pool file, and says so", async (world) => {
    world.start("a", { addresses: ["192.0.2.1"] })
    await world.clock.advance(1000)
    const [block = ""] = world.blocksOf("a")
    expect(world.recordsOf("a")).toEqual([block])
    expect(world.node("a").files.get("pods")).toMatchObject({
      version: 1,
      pool: "pods",
      node: world.node("a").owner,
      store: "/networks/pods-net",
      sets: [{ prefix: "10.64.0.0/24", blockLength: 28, blocks: [block], draining: [], reserved: [] }],
      routes: [{ dst: "0.0.0.0/0" }],
    })
    expect(world.cluster.find("node", "a")?.value).toEqual({ owner: world.node("a").owner, addresses: ["192.0.2.1"] })
    expect(world.engines.get("a")?.engine.status()).toMatchObject({
      node: { name: "a" },
      store: { name: "memory" },
      pools: [
        {
          name: "pods",
          file: "/pools/pods.json",
          prefixes: [{ used: 0, free: "13", cluster: { free: "15", owned: 1, quarantined: 0 } }],
        },
      ],
      lost: [],
    })
  })

  inWorld("claims more before its addresses run out, and gives back what it does not need", async (world) => {
    const node = world.node("a")
    world.start("a")
    await world.clock.advance(1000)
    for (let at = 0; at < 60; at++) {
      expect(node.add(`c${at}`)).toBeDefined()
      await world.clock.advance(100)
    }
    expect(world.blocksOf("a").length).toBeGreaterThanOrEqual(5)
    expect(world.blocksOf("a")).toEqual(world.recordsOf("a"))
    for (let at = 0; at < 60; at++) node.del(`c${at}`)
    await world.clock.advance(1_000)
    expect(world.blocksOf("a").length).toBeGreaterThanOrEqual(5) // containers may come in the place of those that went
    await world.clock.advance(2_000)
    expect(world.blocksOf("a")).toHaveLength(2) // 13 addresses without the other are fewer than twice 8
    expect(world.blocksOf("a")).toEqual(world.recordsOf("a"))
  })

  inWorld("looks at many containers that come and go a few times, and reads no reservation's file", async (world) => {
    const node = world.node("a")
    const looks = { names: 0, files: 0 }
    node.takenAddresses = () => {
      looks.names++
      return [...node.taken.keys()]
    }
    node.reservations = () => {
      looks.files++
      return [...node.taken.values()]
    }
    world.start("a")
    await world.clock.advance(1000)
    const looksOf = async (work: (at: number) => void) => {
      const before = looks.names
      for (let at = 0; at < 50; at++) {
        work(at)
        await world.clock.advance(10)
      }
      return looks.names - before
    }
    expect(await looksOf((at) => expect(node.add(`c${at}`)).toBeDefined())).toBeLessThanOrEqual(12)
    await world.clock.advance(1000)
    expect(await looksOf((at) => node.del(`c${at}`))).toBeLessThanOrEqual(3)
    expect(looks.files).toBe(0)
  })

  inWorld("at rest asks the store for nothing between two sweeps, and makes no pass", async (world) => {
    const { engine } = world.start("a", { sweepMs: 3_600_000 })
    await world.clock.advance(10_000)
    const before = engine.status().store
    await world.clock.advance(1_000_000)
    expect(engine.status().store.requests).toBe(before.requests)
  })

  inWorld("whose store is down asks it less and less often, also when a sweep is due", async (world) => {
    const { engine } = world.start("a", { sweepMs: 60_000 })
    await world.clock.advance(10_000)
    world.cluster.isDown = true
    await world.clock.advance(60 * 60_000)
    const before = engine.status().store.requests
    await world.clock.advance(60 * 60_000)
    expect(engine.status().store.requests - before).toBeLessThanOrEqual(200) // one look each 23 to 38 s
    world.cluster.isDown = false
    const asked = world.asked
    await world.clock.advance(2 * 60_000)
    expect(world.asked).toBeGreaterThan(asked)
  })

  inWorld("that has no records yet makes no pass for a sweep", async (world) => {
    world.cluster.isDown = true
    const { engine } = world.start("a", { sweepMs: 1_000 })
    let sleeps = 0
    const sleep = world.clock.sleep.bind(world.clock)
    world.clock.sleep = (ms, signal) => {
      sleeps++
      return sleep(ms, signal)
    }
    await world.clock.advance(10 * 60_000)
    expect(sleeps).toBeLessThan(1_000) // five watches that begin again each 15 s or so
    world.cluster.isDown = false
    await world.clock.advance(60_000)
    expect(engine.status().pools).toMatchObject([{ name: "pods" }])
    expect(world.blocksOf("a")).toHaveLength(1)
    expect(world.asked).toBeGreaterThan(0)
  })

  inWorld(
    "gives a block of each family, of IPv6 by arithmetic alone",
    async (world) => {
      world.start("a")
      await world.clock.advance(1000)
      expect(world.node("a").add("c")?.length).toBe(2)
      expect(world.blocksOf("a")).toHaveLength(2)
    },
    {
      prefixes: [
        { prefix: "10.64.0.0/16", blockLength: 26, reserved: [] },
        { prefix: "fd00:64::/48", blockLength: 80, reserved: ["fd00:64:0:8000::/49"] },
      ],
    },
  )

  inWorld("keeps its blocks for as long as it is silent: ownership has no time limit", async (world) => {
    const a = world.start("a")
    await world.clock.advance(1000)
    const blocks = world.blocksOf("a")
    world.node("a").add("c")
    await a.stop()
    world.start("b", { sweepMs: 10_000_000 })
    await world.clock.advance(1_000_000_000)
    expect(world.recordsOf("a")).toEqual(blocks)
    for (const value of world.blockRecords()) expect(value.state).toBe("owned")
  })

  inWorld(
    "of two that want one block only one gets it",
    async (world) => {
      world.start("a")
      world.start("b")
      await world.clock.advance(1000)
      const sizes = [world.blocksOf("a").length, world.blocksOf("b").length]
      expect(sizes[0] ?? 0).toBeGreaterThan(0)
      for (let at = 0; at < 40; at++) {
        world.node("a").add(`c${at}`)
        world.node("b").add(`d${at}`)
        await world.clock.advance(100)
        expect(world.doubles()).toEqual([])
      }
      expect(world.blocksOf("a")).toEqual(world.recordsOf("a"))
      expect(world.blocksOf("b")).toEqual(world.recordsOf("b"))
    },
    { prefixes: [{ prefix: "10.64.0.0/25", blockLength: 29, reserved: [] }] },
  )
})
