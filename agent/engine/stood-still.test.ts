import { describe, expect, test } from "bun:test"
import { type Block, type FixedAddress, keyOf, type Owner } from "../records.ts"
import { podPool, World } from "../testing/world.ts"

const HOUR = 3_600_000

/** Longer than the quarantine of a block. */
const STILL_MS = 2 * HOUR

interface Lost {
  /** The block that was lost, or the fixed address. */
  what: string | undefined
  /** All blocks and fixed addresses that the file of the node has had since. */
  readonly listed: Set<string>
}

/**
 * Has a node stand still once, just after the store has made a write of its agent by which it gets something. Another node has it by the
 * time that the node goes on, and no watch tells.
 */
function standStill(world: World, name: string, write: RegExp): Lost {
  const lost: Lost = { what: undefined, listed: new Set() }
  const node = world.node(name)
  const other = world.node("other").owner
  node.step = (what) => {
    const [, call = "", key = ""] = /^(\w+ \w+) (.*): done$/.exec(what) ?? []
    if (lost.what === undefined && write.test(call)) lost.what = handOver(world, node.owner, other, key)
    if (lost.what === undefined) return
    const { sets = [], fixed = {} } = node.files.get("pods") ?? {}
    const had = Object.keys(fixed).filter((key) => fixed[key]?.length !== 0) // without addresses its pod waits
    for (const each of [...sets.flatMap(({ blocks }) => blocks), ...had]) lost.listed.add(each)
  }
  return lost
}

/** Answers what was handed over, where the record of a key was the owner's. */
function handOver({ cluster, clock }: World, owner: Owner, other: Owner, key: string): string | undefined {
  const block = cluster.find("block", key)?.value as Block | undefined
  const fixed = cluster.find("fixed", key)?.value as FixedAddress | undefined
  const holder = block?.state === "owned" ? block.owner : fixed?.holder
  if (holder?.name !== owner.name) return undefined
  clock.standStill(STILL_MS)
  cluster.isDeaf = true
  if (block) cluster.put("block", key, { ...block, owner: other, epoch: block.epoch + 1, nonce: "of the other" })
  if (fixed) cluster.put("fixed", key, { ...fixed, holder: other, nonce: "of the other" })
  return block?.prefix ?? key
}

/** The file of a node has had other blocks since, and never what was lost. */
function expectNotUsed(world: World, name: string, { what, listed }: Lost): void {
  expect(what).toBeDefined()
  expect([...listed]).not.toContain(what)
  expect(world.blocksOf(name).length).toBeGreaterThan(0)
  expect(world.blocksOf(name)).toEqual(world.recordsOf(name))
}

/** The ways in which an agent gets a block: what `mishap` does happens once, to the write that is named. Answers the block, where it is known. */
const gains: Readonly<Record<string, (world: World, mishap: (write: RegExp) => Lost) => Promise<Lost>>> = {
  async "that it has claimed"(world, mishap) {
    const lost = mishap(/^create block/)
    world.start("a")
    await world.clock.advance(10_000)
    return lost
  },
  async "of its own that it was about to take up again"(world, mishap) {
    world.start("a")
    await world.clock.advance(2000)
    await world.engines.get("a")?.stop()
    world.node("a").files.clear()
    const lost = mishap(/^replace block/)
    world.start("a")
    await world.clock.advance(10_000)
    return lost
  },
  async "that it has claimed again for a container"(world, mishap) {
    world.start("a")
    await world.clock.advance(2000)
    world.node("a").add("pod")
    const [block = ""] = world.blocksOf("a")
    await world.engines.get("a")?.stop()
    world.node("a").files.clear()
    world.cluster.drop("block", keyOf.block({ pool: "pods", prefix: block }))
    const lost = mishap(/^create block/)
    world.start("a")
    await world.clock.advance(10_000)
    expect(lost.what).toBe(block)
    return lost
  },
  async "that it has taken over from a node that is gone"(world, mishap) {
    for (const name of ["gone", "a"]) world.start(name)
    await world.clock.advance(2000)
    await world.engines.get("gone")?.stop()
    world.cluster.members = [world.node("a").owner, world.node("other").owner]
    await world.clock.advance(10 * 60_000)
    const [block = ""] = world.recordsOf("gone")
    const lost = mishap(/^replace block/)
    for (let at = 0; at < 10; at++) world.node("a").add(`pod-${at}`)
    await world.clock.advance(2 * HOUR)
    expect(lost.what).toBe(block)
    return lost
  },
}

const twoBlocks = { prefixes: [{ prefix: "10.64.0.0/27", blockLength: 28, reserved: [] }] }

/** Loses the answer to a write of an agent once, and has a sweep of another node put the block in quarantine before it asks again. */
function quarantine(world: World, name: string, write: RegExp): Lost {
  const lost: Lost = { what: undefined, listed: new Set() }
  const node = world.node(name)
  world.cluster.fateOf = ({ call, kind }) =>
    lost.what === undefined && write.test(`${call} ${kind}`) ? "lost answer" : "done"
  node.step = (what) => {
    const [, call = "", key = ""] = /^(\w+ \w+) (.*): done$/.exec(what) ?? []
    const block = world.cluster.find("block", key)?.value as Block | undefined
    if (lost.what === undefined && write.test(call) && block?.owner.name === name) {
      lost.what = block.prefix
      world.cluster.put("block", key, { ...block, state: "quarantined" })
    }
    const inForce = world.cluster.find("block", `pods/${lost.what}`)?.value as Block | undefined
    if (inForce?.state === "quarantined" && world.blocksOf(name).includes(inForce.prefix)) lost.listed.add(what)
  }
  return lost
}

describe("a block whose claim is in quarantine before its late answer comes", () => {
  test.each(Object.entries(gains))("is not used, but taken back first: one %s", async (_, gain) => {
    const world = new World(twoBlocks)
    const { what = "", listed } = await gain(world, (write) => quarantine(world, "a", write))
    expect([...listed]).toEqual([])
    expect(world.blocksOf("a")).toContain(what)
    expect(world.blocksOf("a")).toEqual(world.recordsOf("a"))
    expect(world.blockRecords()).toContainEqual(expect.objectContaining({ prefix: what, state: "owned" }))
    await world.stop()
  })
})

describe("a node that stands still between the store's answer and its file for longer than the quarantine", () => {
  test.each(Object.entries(gains))("does not use a block %s", async (_, gain) => {
    const world = new World(twoBlocks)
    expectNotUsed(world, "a", await gain(world, (write) => standStill(world, "a", write)))
    await world.stop()
  })

  test("does not use a fixed address", async () => {
    const prefixes = [{ prefix: "10.64.0.0/24", blockLength: 28, gateway: "10.64.0.1", reserved: ["10.64.0.192/26"] }]
    const world = new World({ ...podPool, prefixes })
    world.boundPods = async function* (_, signal) {
      yield [{ namespace: "db", pod: "mysql-0" }]
      await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }))
    }
    const addresses = ["10.64.0.200"]
    const value: FixedAddress = { pool: "pods", namespace: "db", pod: "mysql-0", ifName: "eth0", addresses, nonce: "n" }
    world.start("a")
    await world.clock.advance(2000)
    const lost = standStill(world, "a", /^replace fixed/)
    world.cluster.put("fixed", keyOf.fixed(value), value)
    await world.clock.advance(10_000)
    expectNotUsed(world, "a", lost)
    expect(lost.what).toBe("db/mysql-0/eth0")
    expect(world.node("a").files.get("pods")?.fixed).toEqual({ "db/mysql-0/eth0": [] })
    await world.stop()
  })
})

test("a fixed address that a late request gives up is taken by a new version of its record before the file has it again", async () => {
  const prefixes = [{ prefix: "10.64.0.0/24", blockLength: 28, gateway: "10.64.0.1", reserved: ["10.64.0.192/26"] }]
  const world = new World({ ...podPool, prefixes })
  const addresses = ["10.64.0.200"]
  const holder = world.node("a").owner
  const value: FixedAddress = {
    ...{ pool: "pods", namespace: "db", pod: "mysql-0", ifName: "eth0", addresses, nonce: "n" },
    holder,
  }
  const before = world.cluster.put("fixed", keyOf.fixed(value), value)
  world.start("a")
  await world.clock.advance(2000)
  expect(world.node("a").files.get("pods")?.fixed).toEqual({ "db/mysql-0/eth0": addresses })
  const late = world.cluster.open()
  expect(await late.replace(before, { ...before.value, nonce: "late" })).toBeUndefined()
  await world.stop()
})

test("a block that has left the file during a pass is not written back by it", async () => {
  const world = new World()
  const node = world.node("a")
  world.start("a")
  await world.clock.advance(2000)
  const [block = ""] = world.blocksOf("a")
  let [isGone, isAsked] = [false, false]
  const early: string[] = []
  node.step = (what) => {
    if (what.startsWith("create block") && what.endsWith(": done") && !isGone) {
      isGone = true
      node.files.clear()
    }
    if (isGone && what === `replace block pods/${block}: done`) isAsked = true
    if (isGone && !isAsked && world.blocksOf("a").includes(block)) early.push(what)
  }
  for (let at = 0; at < 8; at++) node.add(`pod-${at}`)
  await world.clock.advance(10_000)
  expect({ isGone, isAsked, early }).toEqual({ isGone: true, isAsked: true, early: [] })
  expect(world.blocksOf("a")).toEqual(world.recordsOf("a"))
  await world.stop()
})
