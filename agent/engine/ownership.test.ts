import { describe, expect, test } from "bun:test"
import { SyscallError } from "../../pkg/libc/mod.ts"
import { type Block, keyOf } from "../records.ts"
import type { Stored } from "../store.ts"
import { Killed, podPool, World } from "../testing/world.ts"

const HOUR = 3_600_000

function inWorld(title: string, work: (world: World) => Promise<void>, pool = {}): void {
  test(title, async () => {
    const world = new World(pool)
    try {
      await work(world)
    } finally {
      await world.stop()
    }
    for (const each of world.engines.values()) expect(each.error).toBeUndefined()
  }, 900_000)
}

/** Agents of "a", "b" and "c"; "a" has a container and is then cut off: killed, and no member of the cluster any more. */
async function vanish(world: World): Promise<{ block: string; address: string }> {
  for (const name of ["a", "b", "c"]) world.start(name)
  await world.clock.advance(2000)
  const [address = ""] = world.node("a").add("pod") ?? []
  const block = world.blocksOf("a")[0] ?? ""
  await world.engines.get("a")?.stop()
  world.cluster.members = ["b", "c"].map((name) => world.node(name).owner)
  return { block, address }
}

const record = (world: World, block: string) =>
  world.cluster.find("block", `pods/${block}`) as Stored<"block"> | undefined

/** Containers on a node until it has so many blocks. */
async function fill(world: World, name: string, count: number): Promise<void> {
  for (let at = 0; at < count; at++) {
    world.node(name).add(`${name}-${at}`)
    await world.clock.advance(50)
  }
  await world.clock.advance(100) // the last pass
}

const smallPool = { prefixes: [{ prefix: "10.64.0.0/26", blockLength: 28, reserved: [] }] } // 4 blocks of 13

describe("the blocks of a node that is gone", () => {
  inWorld(
    "wait in quarantine, and are not used before it ends by boot time",
    async (world) => {
      const { block } = await vanish(world)
      await world.clock.advance(5 * 60_000)
      expect(record(world, block)?.value).toMatchObject({ state: "quarantined", owner: { name: "a" }, epoch: 1 })
      await fill(world, "b", 40)
      await world.clock.advance(HOUR - 10 * 60_000)
      expect(record(world, block)?.value).toMatchObject({ state: "quarantined", owner: { name: "a" } })
      await world.clock.advance(15 * 60_000)
      expect(record(world, block)?.value).toMatchObject({ state: "owned", epoch: 2 })
      expect(["b", "c"]).toContain(record(world, block)?.value.owner.name ?? "")
    },
    smallPool,
  )

  inWorld("are taken over only when no free one is left", async (world) => {
    const { block } = await vanish(world)
    await world.clock.advance(3 * HOUR)
    await fill(world, "b", 10)
    expect(record(world, block)?.value.state).toBe("quarantined")
  })

  inWorld(
    "stay there where their addresses were reserved since",
    async (world) => {
      const { block } = await vanish(world)
      await world.clock.advance(5 * 60_000)
      const before = record(world, block)
      expect(before?.value.state).toBe("quarantined")
      const prefixes = smallPool.prefixes.map((each) => ({ ...each, reserved: [block] }))
      world.cluster.put("registry", keyOf.registry(), { pools: { pods: { ...podPool, prefixes } } })
      await world.clock.advance(2 * HOUR)
      await fill(world, "b", 40)
      await world.clock.advance(HOUR)
      expect(record(world, block)).toEqual(before)
    },
    smallPool,
  )

  inWorld(
    "are seen anew by an agent of another boot: its clock says nothing of the time before",
    async (world) => {
      const { block } = await vanish(world)
      await world.engines.get("c")?.stop()
      await world.clock.advance(HOUR / 2)
      await world.engines.get("b")?.stop()
      world.clock.bootId = "boot-2"
      world.clock.now += HOUR
      world.start("b")
      await fill(world, "b", 40)
      await world.clock.advance(HOUR / 2)
      expect(record(world, block)?.value.state).toBe("quarantined")
      await world.clock.advance(HOUR)
      expect(record(world, block)?.value).toMatchObject({ state: "owned", owner: { name: "b" }, epoch: 2 })
    },
    smallPool,
  )

  inWorld(
    "are remembered by an agent that is started again in the same boot",
    async (world) => {
      const { block } = await vanish(world)
      await world.engines.get("c")?.stop()
      await world.clock.advance(HOUR / 2)
      await world.engines.get("b")?.stop()
      world.start("b")
      await fill(world, "b", 40)
      await world.clock.advance(HOUR / 2 + 10 * 60_000)
      expect(record(world, block)?.value).toMatchObject({ state: "owned", owner: { name: "b" } })
    },
    smallPool,
  )

  inWorld(
    "are its own again when it comes back in time",
    async (world) => {
      const { block, address } = await vanish(world)
      await world.clock.advance(HOUR / 2)
      expect(record(world, block)?.value.state).toBe("quarantined")
      world.cluster.members = undefined
      world.start("a")
      await world.clock.advance(2000)
      expect(record(world, block)?.value).toMatchObject({ state: "owned", owner: { name: "a" }, epoch: 1 })
      await world.clock.advance(5 * HOUR)
      expect(world.holderOf(address)).toBe("a")
      expect(world.doubles()).toEqual([])
    },
    smallPool,
  )

  inWorld(
    "are not taken over from a node that is a member again, also without its agent",
    async (world) => {
      const { block } = await vanish(world)
      await world.clock.advance(HOUR / 2)
      world.cluster.members = undefined
      await fill(world, "b", 40)
      await world.clock.advance(3 * HOUR)
      expect(record(world, block)?.value).toMatchObject({ state: "quarantined", owner: { name: "a" } })
    },
    smallPool,
  )

  inWorld(
    "are given up when it comes back too late: ADD has none of them, and the containers are named",
    async (world) => {
      const { block, address } = await vanish(world)
      await world.clock.advance(HOUR / 4)
      await fill(world, "b", 40)
      await world.clock.advance(2 * HOUR)
      expect(record(world, block)?.value.owner.name).not.toBe("a")
      const owner = record(world, block)?.value.owner.name ?? ""
      world.cluster.members = undefined
      const { engine } = world.start("a")
      await world.clock.advance(2000)
      expect(world.blocksOf("a")).not.toContain(block)
      expect(world.node("a").files.get("pods")?.epoch).toBe(2)
      expect(engine.status().lost).toEqual([
        { pool: "pods", prefix: block, owner, containers: [{ id: "pod", ifName: "eth0", address }] },
      ])
      expect(world.log.filter(({ level }) => level === "error").map(({ message }) => message)).toContain(
        `Block ${block} of pool "pods" is lost: node "${owner}" owns it now`,
      )
      world.node("a").del("pod")
      await world.clock.advance(1000)
      expect(engine.status().lost).toEqual([])
    },
    smallPool,
  )
})

describe("a sweep believes nothing", () => {
  const refuses = (title: string, reason: string, change: (world: World) => void) =>
    inWorld(title, async (world) => {
      for (const name of ["a", "b", "c"]) world.start(name)
      await world.clock.advance(2000)
      for (const name of ["b", "c"]) await world.engines.get(name)?.stop()
      change(world)
      await world.clock.advance(HOUR)
      expect(world.blockRecords().map(({ state }) => state)).not.toContain("quarantined")
      expect(world.log.map(({ message }) => message)).toContain(`No block is quarantined: ${reason}`)
    })
  const remedy = '"cni-agent ipam release-node NODE" takes back the blocks of one that is gone for good'
  refuses("of a store that names no node", "the store names no node at all", (world) => (world.cluster.members = []))
  refuses(
    "of a store that names one node of three",
    `2 of 3 owners of blocks are gone, more than 10 % (b, c). ${remedy}`,
    (world) => (world.cluster.members = [world.node("a").owner]),
  )
  refuses("of a store that does not name its own node", "this node itself is no member", (world) => {
    world.cluster.members = [world.node("b").owner, world.node("c").owner]
  })

  inWorld("of one look: a node that is back at the next keeps its blocks", async (world) => {
    const { block } = await vanish(world)
    await world.engines.get("c")?.stop()
    const members = world.cluster.members
    for (let at = 0; at < 40; at++) {
      world.cluster.members = at % 2 === 0 ? members : undefined
      const asked = world.asked
      while (world.asked === asked) await world.clock.advance(1000)
    }
    expect(record(world, block)?.value.state).toBe("owned")
  })

  inWorld("of a name: a node that was made anew under it is another", async (world) => {
    const { block } = await vanish(world)
    world.cluster.members = [...(world.cluster.members ?? []), { ...world.node("a").owner, uid: "another" }]
    await world.clock.advance(10 * 60_000)
    expect(record(world, block)?.value.state).toBe("quarantined")
  })
})

describe("an epoch", () => {
  inWorld(
    "that has changed while the agent was away tells that the block was another node's: it is lost, though it is ours",
    async (world) => {
      const a = world.start("a")
      await world.clock.advance(2000)
      const [address = ""] = world.node("a").add("pod") ?? []
      const block = world.blocksOf("a")[0] ?? ""
      await a.stop()
      const before = record(world, block)
      if (!before) throw new Error("no record")
      world.cluster.put("block", before.key, { ...before.value, epoch: 3, nonce: "operator" })
      const { engine } = world.start("a")
      await world.clock.advance(2000)
      expect(world.blocksOf("a")).not.toContain(block)
      expect(engine.status().lost).toMatchObject([{ prefix: block, containers: [{ id: "pod", address }] }])
      world.node("a").del("pod")
      await world.clock.advance(2000)
      expect(engine.status().lost).toEqual([])
      expect(world.blocksOf("a")).toEqual(world.recordsOf("a"))
    },
  )
})

test("a record with our name and another nonce is not the claim that was made", async () => {
  const world = new World()
  const node = world.node("a")
  const first = world.start("a")
  await world.clock.advance(2000)
  const [block = ""] = world.blocksOf("a")
  await first.stop()
  // The next free block has a record of ours that this agent did not make, and that its watch has not told of.
  node.files.clear()
  node.memory = undefined
  const stored = record(world, block)
  world.cluster.drop("block", `pods/${block}`)
  let tries = 0
  world.cluster.fateOf = ({ call, key }) => {
    if (call === "create" && key === `pods/${block}` && tries++ === 0 && stored) {
      world.cluster.put("block", key, { ...stored.value, nonce: "of another claim" } satisfies Block)
      world.cluster.isDeaf = true
    }
    return "done"
  }
  world.start("a")
  await world.clock.advance(500)
  expect(tries).toBe(1)
  const claimed = world.log.filter(({ message }) => message.endsWith("is this node's")).at(-1)?.block
  expect(claimed).toBeDefined()
  const nonces = new Set(world.blockRecords().map(({ nonce }) => nonce))
  expect(nonces.has("of another claim") && claimed === block).toBe(false)
  await world.stop()
})

test("a claim that was killed midway is taken into use also of a block that was lost before, and in which a late ADD has a container", async () => {
  const world = new World({ prefixes: [{ prefix: "10.64.0.0/28", blockLength: 28, reserved: [] }] }) // 1 block
  const node = world.node("a")
  const first = world.start("a")
  await world.clock.advance(2000)
  const [block = ""] = world.blocksOf("a")
  const before = record(world, block)
  if (!before) throw new Error("no record")
  world.cluster.put("block", before.key, { ...before.value, owner: world.node("b").owner, epoch: 2, nonce: "of b" })
  await world.clock.advance(2000)
  expect(world.blocksOf("a")).not.toContain(block)
  node.step = (what) => {
    if (what === `create block ${before.key}: done`) throw new Killed(what)
  }
  world.cluster.drop("block", before.key) // b has given it back
  await world.clock.advance(2000)
  expect(first.error).toBeInstanceOf(Killed)
  node.step = () => {}
  node.taken.set("10.64.0.5", { address: "10.64.0.5", id: "late", ifName: "eth0" }) // by the file of before
  const second = world.start("a")
  await world.clock.advance(2000)
  expect(world.blocksOf("a")).toEqual([block])
  expect(second.error).toBeUndefined()
  await world.stop()
})

describe("a store that comes from a backup", () => {
  inWorld(
    "stops claims and releases; what the files have is written to it again, and an operator ends it",
    async (world) => {
      for (const name of ["a", "b"]) world.start(name)
      await world.clock.advance(2000)
      const restore = world.cluster.backup()
      await fill(world, "a", 30)
      await fill(world, "b", 30)
      const blocks = { a: world.blocksOf("a"), b: world.blocksOf("b") }
      restore()
      await world.clock.advance(60_000)
      for (const name of ["a", "b"] as const) {
        const status = world.engines.get(name)?.engine.status()
        expect(status?.store.stopped).toContain("it went back from revision ")
        expect(world.blocksOf(name)).toEqual(blocks[name])
        expect(world.recordsOf(name)).toEqual(blocks[name])
      }
      expect(await requestsIn(world, "a", 10_000)).toBe(0)
      for (let at = 0; at < 30; at++) world.node("a").add(`more-${at}`)
      await world.clock.advance(60_000)
      expect(world.blocksOf("a")).toEqual(blocks.a)
      world.engines.get("a")?.engine.acceptStore()
      await world.clock.advance(10_000)
      expect(world.engines.get("a")?.engine.status().store.stopped).toBeUndefined()
      expect(world.blocksOf("a").length).toBeGreaterThan(blocks.a.length)
      expect(world.doubles()).toEqual([])
    },
  )

  inWorld("is known before a block is given up, also while the watches have not noticed", async (world) => {
    for (const name of ["a", "b"]) world.start(name)
    await world.clock.advance(2000)
    world.node("a").add("pod")
    const [block = ""] = world.blocksOf("a")
    const before = record(world, block)
    if (!before) throw new Error("no record")
    const restore = world.cluster.backup()
    await fill(world, "a", 30)
    restore(false)
    world.cluster.drop("block", before.key)
    world.cluster.put("block", before.key, { ...before.value, owner: world.node("b").owner, nonce: "of then" })
    await world.clock.advance(10_000)
    expect(world.engines.get("a")?.engine.status().store.stopped).toContain("it went back from revision ")
    expect(world.blocksOf("a")).toContain(block)
    expect(record(world, block)?.value.owner.name).toBe("a")
  })

  inWorld("or has another id: the same, also after a start", async (world) => {
    const a = world.start("a")
    await world.clock.advance(2000)
    await a.stop()
    world.cluster.cluster = "cluster-2"
    const { engine } = world.start("a")
    await world.clock.advance(2000)
    expect(engine.status().store.stopped).toContain("its id was cluster-1, and is cluster-2")
  })

  inWorld("has its node records written again, but none of another node of the same name", async (world) => {
    const restore = world.cluster.backup()
    const a = world.start("a", { addresses: ["192.0.2.1"] })
    await world.clock.advance(2000)
    restore()
    await world.clock.advance(2000)
    expect(world.cluster.find("node", "a")?.value).toEqual({ owner: world.node("a").owner, addresses: ["192.0.2.1"] })
    await a.stop()
    const other = { owner: { ...world.node("a").owner, uid: "of another cluster" }, addresses: ["198.51.100.1"] }
    world.cluster.put("node", "a", other)
    world.start("a", { addresses: ["192.0.2.1"] })
    await world.clock.advance(2000)
    expect(world.cluster.find("node", "a")?.value).toEqual(other)
  })

  inWorld("and gives a block to its owner of then leaves it with the node whose file has it", async (world) => {
    for (const name of ["a", "b"]) world.start(name)
    await world.clock.advance(2000)
    const [address = ""] = world.node("a").add("pod") ?? []
    const block = world.blocksOf("a")[0] ?? ""
    const restore = world.cluster.backup()
    await fill(world, "a", 30)
    restore()
    // In the backup the block is b's, which gave it back before a claimed it.
    const before = record(world, block)
    if (!before) throw new Error("no record")
    world.cluster.put("block", before.key, { ...before.value, owner: world.node("b").owner, nonce: "of then" })
    await world.clock.advance(60_000)
    expect(world.blocksOf("a")).toContain(block)
    expect(world.blocksOf("b")).not.toContain(block)
    expect(world.holderOf(address)).toBe("a")
    for (const name of ["a", "b"]) world.engines.get(name)?.engine.acceptStore()
    await world.clock.advance(60_000)
    expect(world.holderOf(address)).toBe("a")
    expect(world.doubles()).toEqual([])
  })
})

describe("a store from a backup that does not know a block, while the file that has it is lost", () => {
  inWorld("is told of it for a container that has an address of it", async (world) => {
    const restore = world.cluster.backup()
    for (const name of ["a", "b"]) world.start(name)
    await world.clock.advance(2000)
    const [address = ""] = world.node("a").add("pod") ?? []
    const [block = ""] = world.blocksOf("a")
    restore()
    world.node("a").files.clear()
    await world.clock.advance(60_000)
    expect(record(world, block)?.value).toMatchObject({ owner: { name: "a" }, state: "owned" })
    for (const name of ["b", "a"]) world.engines.get(name)?.engine.acceptStore()
    await world.clock.advance(60_000)
    expect(world.blocksOf("a")).toContain(block)
    expect(world.holderOf(address)).toBe("a")
    expect(world.doubles()).toEqual([])
  })

  inWorld("is told of it also where the file was written anew without the block", async (world) => {
    const restore = world.cluster.backup()
    const a = world.start("a")
    await world.clock.advance(2000)
    const [address = ""] = world.node("a").add("pod") ?? []
    const [block = ""] = world.blocksOf("a")
    await a.stop()
    const file = world.node("a").files.get("pods")
    if (!file) throw new Error("no file")
    world.node("a").files.set("pods", { ...file, sets: file.sets.map((set) => ({ ...set, blocks: [] })) })
    restore()
    world.start("a")
    await world.clock.advance(60_000)
    expect(record(world, block)?.value).toMatchObject({ owner: { name: "a" }, state: "owned" })
    world.engines.get("a")?.engine.acceptStore()
    await world.clock.advance(60_000)
    expect(world.blocksOf("a")).toContain(block)
    expect(world.holderOf(address)).toBe("a")
  })

  inWorld(
    "is told of it also where the record is of its owner before, who has reservations left in it",
    async (world) => {
      for (const name of ["a", "b"]) world.start(name)
      await world.clock.advance(2000)
      const [block = ""] = world.blocksOf("b")
      const before = record(world, block)
      if (!before) throw new Error("no record")
      const restore = world.cluster.backup()
      const [address = ""] = world.node("b").add("left by a reboot") ?? []
      world.cluster.put("block", before.key, { ...before.value, owner: world.node("a").owner, epoch: 2, nonce: "of a" })
      await world.clock.advance(2000)
      expect([world.blocksOf("a").includes(block), world.blocksOf("b").includes(block)]).toEqual([true, false])
      const mine = address.replace(/\d+$/, (last) => String(Number(last) + 1))
      world.node("a").taken.set(mine, { address: mine, id: "pod", ifName: "eth0" })
      await world.clock.advance(2000)
      restore()
      world.node("a").files.clear()
      await world.clock.advance(60_000)
      expect(record(world, block)?.value).toMatchObject({ owner: { name: "a" }, epoch: 3 })
      for (const name of ["b", "a"]) world.engines.get(name)?.engine.acceptStore()
      await world.clock.advance(60_000)
      expect([world.blocksOf("a").includes(block), world.blocksOf("b").includes(block)]).toEqual([true, false])
    },
  )

  inWorld("is told of no block that was lost to another node before", async (world) => {
    const restore = world.cluster.backup()
    world.start("a")
    await world.clock.advance(2000)
    world.node("a").add("pod")
    const [block = ""] = world.blocksOf("a")
    const before = record(world, block)
    if (!before) throw new Error("no record")
    world.cluster.put("block", before.key, { ...before.value, owner: world.node("b").owner, epoch: 2, nonce: "of b" })
    await world.clock.advance(2000)
    expect(world.blocksOf("a")).not.toContain(block)
    restore()
    await world.clock.advance(60_000)
    expect(record(world, block)).toBeUndefined()
  })

  inWorld(
    "is told of no lost block either that this node has tried to claim since, and another has got",
    async (world) => {
      const restore = world.cluster.backup()
      world.start("a")
      await world.clock.advance(2000)
      world.node("a").add("pod")
      const [block = ""] = world.blocksOf("a")
      const before = record(world, block)
      if (!before) throw new Error("no record")
      const ofB: Block = { ...before.value, owner: world.node("b").owner, epoch: 2, nonce: "of b" }
      world.cluster.put("block", before.key, ofB)
      await world.clock.advance(2000)
      let tries = 0
      world.cluster.fateOf = ({ call, key }) => {
        if (call === "create" && key === before.key && tries++ === 0) world.cluster.put("block", key, ofB)
        return "done"
      }
      world.cluster.drop("block", before.key)
      await world.clock.advance(2000)
      expect([tries, world.blocksOf("a").includes(block)]).toEqual([1, false])
      restore()
      await world.clock.advance(60_000)
      expect(record(world, block)).toBeUndefined()
    },
  )

  inWorld(
    "is told of no lost block that an ADD gets an address of afterwards: it has read the file before",
    async (world) => {
      const restore = world.cluster.backup()
      world.start("a")
      await world.clock.advance(2000)
      const [block = ""] = world.blocksOf("a")
      const before = record(world, block)
      if (!before) throw new Error("no record")
      world.cluster.put("block", before.key, { ...before.value, owner: world.node("b").owner, epoch: 2, nonce: "of b" })
      await world.clock.advance(2000)
      expect(world.blocksOf("a")).not.toContain(block)
      const address = block.replace(/\d+[/]\d+$/, (last) => String(Number.parseInt(last, 10) + 2))
      world.node("a").taken.set(address, { address, id: "late", ifName: "eth0" })
      restore()
      await world.clock.advance(60_000)
      expect(record(world, block)).toBeUndefined()
    },
  )

  inWorld("that says that a lost block is this node's is believed once it is accepted", async (world) => {
    world.start("a")
    await world.clock.advance(2000)
    const [address = ""] = world.node("a").add("pod") ?? []
    const [block = ""] = world.blocksOf("a")
    const restore = world.cluster.backup()
    const before = record(world, block)
    if (!before) throw new Error("no record")
    world.cluster.put("block", before.key, { ...before.value, owner: world.node("b").owner, epoch: 2, nonce: "of b" })
    await world.clock.advance(2000)
    restore()
    await world.clock.advance(60_000)
    expect(world.blocksOf("a")).not.toContain(block)
    world.engines.get("a")?.engine.acceptStore()
    await world.clock.advance(60_000)
    expect(world.blocksOf("a")).toContain(block)
    expect(world.holderOf(address)).toBe("a")
  })

  inWorld("is known to the agent that starts next, too, where the disk took nothing before", async (world) => {
    const restore = world.cluster.backup()
    const node = world.node("a")
    node.diskFault = new SyscallError("write", 28) // ENOSPC
    const a = world.start("a")
    world.start("b")
    await world.clock.advance(2000)
    node.diskFault = undefined
    restore()
    await world.clock.advance(60_000)
    await a.stop()
    const { engine } = world.start("a")
    await world.clock.advance(60_000)
    expect(engine.status().store.stopped).toContain("as from a backup")
    expect(world.blocksOf("a")).toEqual([])
  })

  inWorld(
    "is known to the agent that starts next, too, when what was written since has taken it further than it was",
    async (world) => {
      const a = world.start("a")
      await world.clock.advance(2000)
      const restore = world.cluster.backup()
      await fill(world, "a", 30)
      restore()
      await world.clock.advance(2000)
      await a.stop()
      for (let at = 0; at < 100; at++)
        world.cluster.put("want", "pods/z", { pool: "pods", owner: world.node("z").owner })
      const { engine } = world.start("a")
      await world.clock.advance(2000)
      expect(engine.status().store.stopped).toContain("as from a backup")
      engine.acceptStore()
      await world.clock.advance(2000)
      expect(engine.status().store.stopped).toBeUndefined()
    },
  )

  inWorld("is left as it is where the block is another node's", async (world) => {
    const a = world.start("a")
    await world.clock.advance(2000)
    world.node("a").add("pod")
    const [block = ""] = world.blocksOf("a")
    await a.stop()
    const before = record(world, block)
    if (!before) throw new Error("no record")
    const owner = world.node("b").owner
    world.cluster.put("block", before.key, { ...before.value, owner, epoch: 2, nonce: "of b" })
    world.cluster.cluster = "cluster-2"
    world.node("a").files.clear()
    world.start("a")
    await world.clock.advance(60_000)
    expect(record(world, block)?.value).toMatchObject({ owner: { name: "b" }, nonce: "of b" })
  })
})

/** Agents of "a" and "b"; "a" has a container, then the store comes back from a backup of before its block, in which a late claim of "b" is made first. */
async function claimInBackup(world: World): Promise<{ block: string; address: string }> {
  const restore = world.cluster.backup()
  for (const name of ["a", "b"]) world.start(name)
  await world.clock.advance(2000)
  await world.engines.get("b")?.stop()
  const [address = ""] = world.node("a").add("pod") ?? []
  const [block = ""] = world.blocksOf("a")
  const claimed = record(world, block)
  if (!claimed) throw new Error("no record")
  let isClaimed = false
  world.cluster.fateOf = ({ call, key }) => {
    if (call !== "create" || key !== claimed.key || isClaimed) return "done"
    isClaimed = true
    world.cluster.put("block", key, { ...claimed.value, owner: world.node("b").owner, nonce: "in the backup" })
    return "done"
  }
  restore()
  await world.clock.advance(60_000)
  expect(record(world, block)?.value).toMatchObject({ owner: { name: "b" }, nonce: "in the backup" })
  return { block, address }
}

describe("a claim that was made in a store from a backup, before that was known", () => {
  inWorld("is taken back by the agent that made it: another file may have the block", async (world) => {
    const { block, address } = await claimInBackup(world)
    world.start("b")
    await world.clock.advance(60_000)
    expect(record(world, block)?.value.owner.name).toBe("a")
    expect(world.blocksOf("b")).not.toContain(block)
    for (const name of ["a", "b"]) world.engines.get(name)?.engine.acceptStore()
    await world.clock.advance(60_000)
    expect(world.blocksOf("a")).toContain(block)
    expect(world.holderOf(address)).toBe("a")
    expect(world.doubles()).toEqual([])
  })

  inWorld("stays where a container of that node has an address of the block", async (world) => {
    const { block } = await claimInBackup(world)
    const b = world.node("b")
    const address = block.replace(/\d+[/]\d+$/, (last) => String(Number.parseInt(last, 10) + 2))
    b.taken.set(address, { address, id: "pod of b", ifName: "eth0" })
    world.start("b")
    await world.clock.advance(60_000)
    expect(record(world, block)?.value.owner.name).toBe("b")
  })
})

async function requestsIn(world: World, name: string, ms: number): Promise<number> {
  const { engine } = world.engines.get(name) ?? {}
  const before = engine?.status().store.requests ?? 0
  await world.clock.advance(ms)
  return (engine?.status().store.requests ?? 0) - before
}

describe("a block without a record", () => {
  inWorld("is given up where the pool was made anew with blocks of another length", async (world) => {
    const a = world.start("a")
    await world.clock.advance(2000)
    const [address = ""] = world.node("a").add("pod") ?? []
    const block = world.blocksOf("a")[0] ?? ""
    await a.stop()
    world.cluster.drop("block", keyOf.block({ pool: "pods", prefix: block }))
    const prefixes = [{ prefix: "10.64.0.0/24", blockLength: 26, reserved: [] }]
    world.cluster.put("registry", keyOf.registry(), { pools: { pods: { ...podPool, prefixes } } })
    const { engine } = world.start("a")
    await world.clock.advance(2000)
    expect(record(world, block)).toBeUndefined()
    expect(world.blocksOf("a")).not.toContain(block)
    expect(world.blocksOf("a")).toEqual(world.recordsOf("a"))
    expect(world.holderOf(address)).toBe("a")
    expect(engine.status().lost).toEqual([])
  })

  inWorld("is claimed again by the node whose file has it", async (world) => {
    world.start("a")
    await world.clock.advance(2000)
    const [block = ""] = world.blocksOf("a")
    world.cluster.drop("block", `pods/${block}`)
    await world.clock.advance(2000)
    expect(record(world, block)?.value).toMatchObject({ owner: { name: "a" }, state: "owned" })
    expect(world.blocksOf("a")).toEqual(world.recordsOf("a"))
  })

  inWorld("is claimed again by the node whose container has an address of it, though no file has it", async (world) => {
    const a = world.start("a")
    await world.clock.advance(2000)
    const [address = ""] = world.node("a").add("pod") ?? []
    const block = world.blocksOf("a")[0] ?? ""
    await a.stop()
    world.node("a").files.clear()
    world.cluster.drop("block", keyOf.block({ pool: "pods", prefix: block }))
    world.start("a")
    await world.clock.advance(2000)
    expect(world.holderOf(address)).toBe("a")
    expect(world.blocksOf("a")).toContain(block)
  })
})

test("an agent that is killed after it has taken a block over has it in its file later, also with a container of before in it", async () => {
  const world = new World({ prefixes: [{ prefix: "10.64.0.0/27", blockLength: 28, reserved: [] }] }) // 2 blocks
  const node = world.node("a")
  const first = world.start("a")
  await world.clock.advance(2000)
  node.add("pod")
  const [block = ""] = world.blocksOf("a")
  await first.stop()
  const before = record(world, block)
  if (!before) throw new Error("no record")
  const gone = world.node("gone").owner
  world.cluster.put("block", before.key, {
    ...before.value,
    owner: gone,
    epoch: 2,
    state: "quarantined",
    nonce: "gone",
  })
  world.cluster.members = [node.owner]
  const second = world.start("a")
  await world.clock.advance(2 * HOUR)
  expect(world.blocksOf("a")).not.toContain(block)
  node.step = (what) => {
    if (what === `replace block pods/${block}: done`) throw new Killed(what)
  }
  await fill(world, "a", 8)
  await world.clock.advance(1000)
  expect(second.error).toBeInstanceOf(Killed)
  node.step = () => {}
  expect(record(world, block)?.value).toMatchObject({ owner: { name: "a" }, epoch: 3 })
  world.start("a")
  await world.clock.advance(2000)
  expect(world.blocksOf("a")).toContain(block)
  await world.stop()
})
