import { describe, expect, test } from "bun:test"
import type { Fate, Write } from "../testing/memory-store.ts"
import { Killed, type TestNode, World } from "../testing/world.ts"

/** Small blocks, 5 addresses each, so that a few containers make claims and releases; node "b" lives in the same pool. */
const pool = { prefixes: [{ prefix: "10.64.0.0/24", blockLength: 29, reserved: [] }] }

/** Containers come and go on node "a": claims, adoptions and releases. What fails is tried again, as kubelet does. */
async function live(world: World): Promise<void> {
  const node = world.node("a")
  await world.clock.advance(1500)
  for (let at = 0; at < 9; at++) node.add(`c${at}`)
  await world.clock.advance(1500)
  for (let at = 0; at < 12; at++) if (at % 4 > 0) node.add(`d${at}`)
  await world.clock.advance(1500)
  for (const { id } of node.reservations()) if (id !== "c3") node.del(id)
  await world.clock.advance(3000)
}

/** Looks after each step of every agent and every delivery whether two nodes have one block or one address. */
function guard(world: World): { readonly found: string[] } {
  const found: string[] = []
  for (const name of ["a", "b"]) {
    const before = world.node(name).step
    world.node(name).step = (what) => {
      for (const double of world.doubles()) found.push(`${double} after "${what}"`)
      before(what)
    }
  }
  return { found }
}

/** Records and files agree, and every container's address lies in a block of its node. */
function expectAgreement(world: World): void {
  for (const name of ["a", "b"]) {
    expect(world.blocksOf(name)).toEqual(world.recordsOf(name))
    for (const { address } of world.node(name).reservations()) expect(world.holderOf(address)).toBe(name)
  }
}

describe("an agent that is killed", () => {
  test("before or after any call of claims, releases and files converges when it is started again", async () => {
    let steps = 0
    for (let at = 1; ; at++) {
      const world = new World(pool)
      const { found } = guard(world)
      world.start("b")
      let count = 0
      killFrom(world.node("a"), () => ++count >= at)
      const first = world.start("a")
      await live(world)
      const wasKilled = first.error instanceof Killed
      if (wasKilled) {
        const idle = world.recordsOf("a").filter((block) => !world.blocksOf("a").includes(block))
        expect(idle.length).toBeLessThanOrEqual(1)
      }
      world.node("a").step = () => {}
      await first.stop()
      world.start("a")
      await live(world)
      expect(found).toEqual([])
      expect(world.doubles()).toEqual([])
      expectAgreement(world)
      await world.stop()
      if (!wasKilled) break
      steps = at
    }
    expect(steps).toBeGreaterThan(40)
  }, 900_000)
})

function killFrom(node: TestNode, isTime: () => boolean): void {
  const before = node.step
  node.step = (what) => {
    if (isTime()) throw new Killed(what)
    before(what)
  }
}

describe("an answer that does not come", () => {
  const cases: [string, Fate, number][] = [
    ["lost after the change", "lost answer", 3],
    ["lost before the change", "lost request", 3],
    ["of a change that is made later", "late", 1],
  ]
  test.each(cases)(
    "%s, of any write, leaves no block with two owners and none lost",
    async (_, fate, times) => {
      let writes = 0
      for (let at = 1; ; at++) {
        const world = new World(pool)
        const { found } = guard(world)
        let count = 0
        world.cluster.fateOf = ({ kind }: Write) => {
          if (kind === "node") return "done"
          count++
          return count >= at && count < at + times ? fate : "done"
        }
        world.start("b")
        world.start("a")
        await live(world)
        world.cluster.deliver() // late requests are carried out now
        await live(world)
        world.cluster.deliver()
        await world.clock.advance(60_000)
        expect(found).toEqual([])
        expect(world.doubles()).toEqual([])
        expectAgreement(world)
        await world.stop()
        if (count < at) break
        writes = at
      }
      expect(writes).toBeGreaterThan(8)
    },
    900_000,
  )

  test("of a removal that is carried out after the agent was killed and started again takes no block in use", async () => {
    const world = new World(pool)
    const node = world.node("a")
    const first = world.start("a")
    await world.clock.advance(1500)
    for (let at = 0; at < 15; at++) {
      node.add(`c${at}`)
      await world.clock.advance(100)
    }
    world.cluster.fateOf = ({ call }) => (call === "remove" ? "late" : "done")
    for (const { id } of node.reservations()) node.del(id)
    await world.clock.advance(100)
    await first.stop()
    world.cluster.fateOf = () => "done"
    const fill = () => {
      while (node.add(`late-${node.taken.size}`)) if (node.taken.size > 200) break
    }
    fill() // so that it needs the block that it was about to give back
    world.start("a")
    await world.clock.advance(100)
    fill()
    world.cluster.isDeaf = true // the agent does not hear of what the removal does
    world.cluster.deliver()
    world.start("b")
    for (let at = 0; at < 150; at++) {
      world.node("b").add(`b${at}`)
      await world.clock.advance(100)
    }
    expect(world.doubles()).toEqual([])
    expectAgreement(world)
    await world.stop()
  }, 900_000)
})

describe("the order of a release:", () => {
  test("the record goes only when the file is without the block, and the proof came after the file had it draining", async () => {
    const world = new World(pool)
    const node = world.node("a")
    const order: string[] = []
    node.step = (what) => {
      const removed = /^remove block (pods\/\S+)$/.exec(what)?.[1]
      const proven = /^look for reservations in (\S+)/.exec(what)?.[1]
      const file = node.files.get("pods")
      const handedOut = file?.sets.flatMap(({ blocks }) => blocks) ?? []
      if (proven !== undefined)
        order.push(`proof of ${proven}: ${handedOut.includes(proven) ? "handed out" : "draining"}`)
      if (removed !== undefined)
        order.push(`removal: ${world.blocksOf("a").some((each) => removed.endsWith(each)) ? "in the file" : "out"}`)
    }
    world.start("a")
    await live(world)
    await world.stop()
    expect(order.length).toBeGreaterThan(2)
    expect(new Set(order.map((each) => each.replace(/proof of \S+:/, "proof:")))).toEqual(
      new Set(["proof: draining", "removal: out"]),
    )
  })

  test("a container that gets an address just before the file changes keeps the block", async () => {
    const world = new World(pool)
    const node = world.node("a")
    world.start("a")
    await world.clock.advance(1500)
    for (let at = 0; at < 20; at++) {
      node.add(`c${at}`)
      await world.clock.advance(100)
    }
    for (const { id } of node.reservations()) node.del(id)
    let late: string | undefined
    node.step = (what) => {
      const block = /^look for reservations in (\S+)\/29/.exec(what)?.[1]
      if (block === undefined || late !== undefined) return
      late = block.replace(/\d+$/, (last) => String(Number(last) + 2))
      node.taken.set(late, { address: late, id: "late", ifName: "eth0" })
    }
    await world.clock.advance(3000)
    expect(late).toBeDefined()
    expect(world.holderOf(late ?? "")).toBe("a")
    expect(world.node("a").files.get("pods")?.sets[0]?.blocks.join()).toContain(
      (late ?? "").replace(/\d+$/, (last) => String(Number(last) & ~7)),
    )
    await world.stop()
  })
})

test("a full disk leaves the old file in force, the block unused, and no more than one block is claimed", async () => {
  const world = new World(pool)
  const node = world.node("a")
  world.start("a")
  await world.clock.advance(1500)
  const before = node.files.get("pods")
  node.diskFault = Object.assign(new Error("write: No space left on device (ENOSPC)"), { errno: "ENOSPC" })
  for (let at = 0; at < 8; at++) node.add(`c${at}`)
  await world.clock.advance(900_000)
  expect(node.files.get("pods")).toEqual(before)
  expect(world.recordsOf("a").length - world.blocksOf("a").length).toBe(1)
  expect(world.engines.get("a")?.engine.status().pools[0]?.fault).toContain("ENOSPC")
  node.diskFault = undefined
  await world.clock.advance(60_000)
  expectAgreement(world)
  expect(world.engines.get("a")?.engine.status().pools[0]?.fault).toBeUndefined()
  await world.stop()
})
