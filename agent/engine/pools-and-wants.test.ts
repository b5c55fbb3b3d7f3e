import { describe, expect, test } from "bun:test"
import type { PoolFile } from "../../ipam/host-local/main.ts"
import { changeReserved, listPools, putPool, removePool } from "../pools.ts"
import { type FixedAddress, keyOf } from "../records.ts"
import { covers, spansOf } from "../spans.ts"
import { type PodName, StoreError } from "../store.ts"
import { podPool, World } from "../testing/world.ts"
import { followPodCidrs } from "./pod-cidrs.ts"

/** 4 blocks of 5 addresses. */
const tiny = { prefixes: [{ prefix: "10.64.0.0/27", blockLength: 29, reserved: [] }] }

async function addAll(world: World, name: string, ids: readonly string[]): Promise<string[]> {
  const got: string[] = []
  for (const id of ids) {
    const deadline = world.clock.now + 60_000
    for (;;) {
      const addresses = world.node(name).add(id)
      if (addresses) {
        got.push(...addresses)
        break
      }
      if (world.clock.now > deadline) return got
      await world.clock.advance(500)
    }
    await world.clock.advance(20)
  }
  return got
}

const ids = (prefix: string, count: number) => Array.from({ length: count }, (_, at) => `${prefix}${at}`)

describe("a pool that has no free block", () => {
  test("serves as many containers as it has addresses, on the nodes where they are", async () => {
    const world = new World(tiny)
    for (const name of ["a", "b"]) world.start(name)
    await world.clock.advance(2000)
    expect(world.blocksOf("a").length + world.blocksOf("b").length).toBe(4)
    const got = await addAll(world, "a", ids("a", 15)) // three of the four blocks
    expect(got).toHaveLength(15)
    expect(world.doubles()).toEqual([])
    const more = await addAll(world, "b", ids("b", 5))
    expect(more).toHaveLength(5)
    expect(world.doubles()).toEqual([])
    await world.stop()
  }, 900_000)

  test("has its want in the store, which goes with the need", async () => {
    const world = new World(tiny)
    world.start("a")
    await world.clock.advance(2000)
    await addAll(world, "a", ids("a", 20))
    expect(world.node("a").add("more")).toBeUndefined()
    await world.clock.advance(1000)
    expect(world.cluster.find("want", "pods/a")?.value).toEqual({
      pool: "pods",
      owner: world.node("a").owner,
      isUrgent: true,
    })
    for (const id of ids("a", 20)) world.node("a").del(id)
    await world.clock.advance(1000)
    expect(world.cluster.find("want", "pods/a")).toBeUndefined()
    await world.stop()
  })

  test("does not have two nodes hand one block to and fro", async () => {
    const world = new World(tiny)
    for (const name of ["a", "b"]) world.start(name, { sweepMs: 10_000_000 })
    await world.clock.advance(2000)
    await addAll(world, "a", ids("a", 15))
    await world.clock.advance(60_000)
    const before = world.cluster.writes.length
    await world.clock.advance(600_000)
    expect(world.cluster.writes.length).toBe(before)
    await world.stop()
  }, 900_000)
})

describe("a pool that is removed", () => {
  test("is left by its nodes, and goes when they have no container in it", async () => {
    const world = new World()
    const store = world.cluster.open()
    for (const name of ["a", "b"]) world.start(name)
    await world.clock.advance(2000)
    world.node("a").add("pod")
    expect(await removePool(store, "pods")).toMatchObject({ isGone: false, owners: ["a", "b"] })
    await world.clock.advance(2000)
    expect(await removePool(store, "pods")).toEqual({ isGone: false, owners: ["a"] })
    expect(world.node("a").add("more")).toBeUndefined()
    world.node("a").del("pod")
    await world.clock.advance(2000)
    expect(await removePool(store, "pods")).toEqual({ isGone: true, owners: [] })
    expect(await listPools(store)).toEqual([])
    await world.clock.advance(2000)
    expect(world.node("a").files.size + world.node("b").files.size).toBe(0)
    await world.stop()
  })

  test("just after a claim has the claim taken back, not used", async () => {
    const world = new World()
    const store = world.cluster.open()
    let removed: Promise<unknown> | undefined
    world.cluster.fateOf = ({ call, kind }) => {
      if (call === "create" && kind === "block" && !removed) removed = removePool(store, "pods")
      return "done"
    }
    const used = new Set<string>()
    world.node("a").step = () => {
      for (const block of world.blocksOf("a")) used.add(block)
    }
    world.start("a")
    await world.clock.advance(2000)
    await removed
    expect([...used]).toEqual([])
    expect(world.blockRecords()).toEqual([])
    await world.stop()
  })
})

test("a block that is reserved just after its claim is given back, not used", async () => {
  const world = new World()
  const store = world.cluster.open()
  const all = podPool.prefixes.flatMap(({ prefix }) => spansOf(prefix))
  let first = ""
  let reserved: Promise<unknown> | undefined
  world.cluster.fateOf = ({ call, kind, key }) => {
    if (call === "create" && kind === "block" && !reserved) {
      first = key.slice(key.indexOf("/") + 1)
      reserved = changeReserved(store, "pods", { add: spansOf(first), remove: [] })
    }
    return "done"
  }
  const used = new Set<string>()
  world.node("a").step = () => {
    for (const block of world.blocksOf("a")) used.add(block)
  }
  world.start("a")
  await world.clock.advance(2000)
  await reserved
  expect(all.some((each) => spansOf(first).some((one) => covers(each, one)))).toBe(true)
  expect([...used]).not.toContain(first)
  expect(used.size).toBeGreaterThan(0)
  expect(world.blockRecords().map(({ prefix }) => prefix)).not.toContain(first)
  await world.stop()
})

describe("a fixed address", () => {
  const pool = {
    ...podPool,
    prefixes: [{ prefix: "10.64.0.0/24", blockLength: 28, gateway: "10.64.0.1", reserved: ["10.64.0.192/26"] }],
  }
  const value: FixedAddress = {
    pool: "pods",
    namespace: "db",
    pod: "mysql-0",
    ifName: "eth0",
    addresses: ["10.64.0.200"],
    nonce: "n",
  }
  const key = keyOf.fixed(value)

  /** A world whose store knows the pods of each node. */
  function withPods() {
    const world = new World(pool)
    const bound = new Map<string, readonly PodName[]>()
    const listeners = new Set<() => void>()
    const bind = (name: string, pods: readonly PodName[]) => {
      bound.set(name, pods)
      for (const wake of listeners) wake()
    }
    world.boundPods = async function* (name, signal) {
      while (!signal.aborted) {
        yield bound.get(name) ?? []
        const { promise, resolve } = Promise.withResolvers<void>()
        listeners.add(resolve)
        signal.addEventListener("abort", () => resolve(), { once: true })
        await promise
      }
    }
    return { world, bind }
  }

  test("is in the file of the node that its pod is bound to, and moves with the pod once no container has it", async () => {
    const { world, bind } = withPods()
    for (const name of ["a", "b"]) world.start(name)
    await world.clock.advance(100)
    world.cluster.put("fixed", key, value)
    bind("a", [{ namespace: "db", pod: "mysql-0" }])
    await world.clock.advance(2000)
    expect(world.node("a").files.get("pods")?.fixed).toEqual({ "db/mysql-0/eth0": ["10.64.0.200"] })
    expect(world.cluster.find("fixed", key)?.value).toMatchObject({ holder: { name: "a" } })
    const [address = ""] = ["10.64.0.200"]
    world.node("a").taken.set(address, { address, id: "mysql", ifName: "eth0" })
    bind("a", [])
    bind("b", [{ namespace: "db", pod: "mysql-0" }])
    await world.clock.advance(2000)
    expect(world.cluster.find("fixed", key)?.value).toMatchObject({ holder: { name: "a" } })
    expect(world.node("b").files.get("pods")?.fixed).toEqual({ "db/mysql-0/eth0": [] }) // its pod waits
    const waits = world.log.filter(({ message }) =>
      message.includes('is still that of node "a", and its pod waits here'),
    )
    expect(waits).toHaveLength(1)
    bind("b", [])
    await world.clock.advance(2000)
    expect(world.log.filter(({ message }) => message.includes("its pod waits here"))).toHaveLength(1)
    bind("b", [{ namespace: "db", pod: "mysql-0" }])
    await world.clock.advance(2000)
    world.node("a").del("mysql")
    await world.clock.advance(2000)
    expect(world.cluster.find("fixed", key)?.value).toMatchObject({ holder: { name: "b" } })
    expect(world.node("b").files.get("pods")?.fixed).toEqual({ "db/mysql-0/eth0": ["10.64.0.200"] })
    await world.stop()
  })

  test("is in the file of the node that an operator names, where the store knows no pods; on another node its pod waits", async () => {
    const world = new World(pool)
    for (const name of ["a", "b"]) world.start(name)
    world.cluster.put("fixed", key, { ...value, holder: world.node("a").owner })
    await world.clock.advance(2000)
    expect(world.node("a").files.get("pods")?.fixed).toEqual({ "db/mysql-0/eth0": ["10.64.0.200"] })
    expect(world.node("b").files.get("pods")?.fixed).toEqual({ "db/mysql-0/eth0": [] })
    world.cluster.put("fixed", key, { ...value, addresses: ["10.64.0.7"] })
    await world.clock.advance(2000)
    expect(world.node("b").files.get("pods")?.fixed).toEqual({}) // a record that cannot be used holds no pod up
    await world.stop()
  })

  test("is waited for also before the agent knows of the pod, and while the store does not answer", async () => {
    const { world, bind } = withPods()
    world.start("a")
    world.cluster.put("fixed", key, value)
    await world.clock.advance(2000)
    expect(world.node("a").files.get("pods")?.fixed).toEqual({ "db/mysql-0/eth0": [] })
    world.node("a").files.delete("pods")
    world.cluster.fateOf = ({ kind }) => (kind === "fixed" ? "lost request" : "done")
    bind("a", [{ namespace: "db", pod: "mysql-0" }])
    await world.clock.advance(2000)
    expect(world.node("a").files.get("pods")?.fixed).toEqual({ "db/mysql-0/eth0": [] })
    world.cluster.fateOf = () => "done"
    await world.clock.advance(60_000)
    expect(world.node("a").files.get("pods")?.fixed).toEqual({ "db/mysql-0/eth0": ["10.64.0.200"] })
    await world.stop()
  })

  test("is named by the first file already: no step of the agent leaves a file with a block and without the pod", async () => {
    const { world, bind } = withPods()
    const files: (PoolFile | undefined)[] = []
    const node = world.node("a")
    node.step = () => files.push(node.files.get("pods"))
    world.cluster.put("fixed", key, value)
    bind("a", [{ namespace: "db", pod: "mysql-0" }])
    world.start("a")
    await world.clock.advance(2000)
    expect(files.at(-1)?.fixed).toEqual({ "db/mysql-0/eth0": ["10.64.0.200"] })
    expect(files.filter((file) => file && !Object.hasOwn(file.fixed, key))).toEqual([])
    await world.stop()
  })

  test("stays in the file, and further ones are waited for, while a started agent does not know the pods yet", async () => {
    const { world, bind } = withPods()
    bind("a", [{ namespace: "db", pod: "mysql-0" }])
    world.cluster.put("fixed", key, value)
    const first = world.start("a")
    await world.clock.advance(2000)
    await first.stop()
    const other = { ...value, pod: "mysql-1", addresses: ["10.64.0.201"] }
    world.cluster.put("fixed", keyOf.fixed(other), other)
    const claimed = { ...value, pod: "mysql-2", addresses: ["10.64.0.202"], holder: world.node("a").owner }
    world.cluster.put("fixed", keyOf.fixed(claimed), claimed) // it was killed before the file had it
    world.boundPods = async function* (_, signal) {
      yield* [] // the store does not answer
      await world.clock.sleep(3_600_000, signal)
    }
    world.start("a")
    await world.clock.advance(2000)
    const fixed = { "db/mysql-0/eth0": ["10.64.0.200"], "db/mysql-1/eth0": [], "db/mysql-2/eth0": [] }
    expect(world.node("a").files.get("pods")?.fixed).toEqual(fixed)
    for (const each of [value, claimed])
      expect(world.cluster.find("fixed", keyOf.fixed(each))?.value).toMatchObject({ holder: { name: "a" } })
    await world.stop()
  })

  test("of a pod of another node is in the file by name, and beyond a thousand by digest", async () => {
    const { world, bind } = withPods()
    world.start("a")
    await world.clock.advance(100)
    const record = (at: number) => ({ ...value, pod: `pod-${at}` })
    for (let at = 0; at < 1003; at++) world.cluster.put("fixed", keyOf.fixed(record(at)), record(at))
    bind("a", [{ namespace: "db", pod: "pod-1001" }])
    await world.clock.advance(2000)
    const { fixed = {}, fixedElsewhere = "" } = world.node("a").files.get("pods") ?? {}
    expect(Object.keys(fixed)).toHaveLength(1001)
    expect(fixed["db/pod-1001/eth0"]).toEqual(["10.64.0.200"])
    // printf db/pod-1002/eth0 | sha256sum | cut -c1-16, and of pod-1000
    expect(fixedElsewhere).toBe(["e1bbfa9b03cadc1f", "2320d1be67f1db45"].sort().join(""))
    await world.stop()
  })

  test("that a block could have is refused: it would be given twice", async () => {
    const world = new World(pool)
    world.start("a")
    world.cluster.put("fixed", key, { ...value, addresses: ["10.64.0.7"], holder: world.node("a").owner })
    await world.clock.advance(2000)
    expect(world.node("a").files.get("pods")?.fixed).toEqual({})
    expect(world.log.map(({ message }) => message)).toContain(
      'Cannot use the fixed address of "db/mysql-0/eth0": 10.64.0.7 lies in no reserved prefix of pool "pods"',
    )
    const said = world.log.length
    for (let at = 0; at < 5; at++) {
      world.node("a").add(`c${at}`)
      await world.clock.advance(1000)
    }
    expect(world.log.slice(said).filter(({ level }) => level === "error")).toEqual([])
    await world.stop()
  })
})

test("pod CIDRs are copied into the file, which stays when the cluster names none", async () => {
  const world = new World()
  const node = world.node("a")
  const told: (string | undefined)[] = []
  const ended = new AbortController()
  const answers = [["10.244.3.0/24", "fd00:244:3::/64"], [], ["10.244.3.0/24", "fd00:244:3::/64"]]
  const surroundings = {
    store: world.cluster.open(),
    clock: world.clock,
    node,
    randomHex: () => "",
    log: () => {},
  }
  const follow = async function* () {
    yield* answers
    ended.abort()
  }
  await followPodCidrs(surroundings, { network: "pods", follow }, ended.signal, (fault) => told.push(fault))
  expect(node.files.get("pods")).toMatchObject({
    pool: "pods",
    store: "/networks/pods",
    sets: [
      { prefix: "10.244.3.0/24", blockLength: 24, blocks: ["10.244.3.0/24"] },
      { prefix: "fd00:244:3::/64", blockLength: 64, blocks: ["fd00:244:3::/64"] },
    ],
    routes: [{ dst: "0.0.0.0/0" }, { dst: "::/0" }],
  })
  expect(world.cluster.writes).toEqual([])
})

test("an API server that is down is asked for pod CIDRs again and again, and the log says so once", async () => {
  const world = new World()
  const ended = new AbortController()
  const told: (string | undefined)[] = []
  const log: string[] = []
  const surroundings = {
    store: world.cluster.open(),
    clock: world.clock,
    node: world.node("a"),
    randomHex: () => "",
    log: ({ message }: { message: string }) => log.push(message),
  }
  let asked = 0
  const follow = async function* () {
    if (++asked % 10 === 0) yield ["10.244.3.0/24"]
    throw new StoreError("no connection", "unknown")
  }
  const following = followPodCidrs(surroundings, { network: "pods", follow }, ended.signal, (fault) => told.push(fault))
  await world.clock.advance(100_000)
  ended.abort()
  await following
  expect(asked).toBeGreaterThanOrEqual(20)
  expect(log).toEqual(["no connection", "no connection", "no connection"]) // again after each of two successes
  expect(told.filter((fault) => fault === "no connection")).toHaveLength(asked)
})

test("a pool may have a name that each object has, and one that is not there cannot be removed", async () => {
  const world = new World({ name: "pods" })
  const store = world.cluster.open()
  const prefixes = [{ prefix: "10.65.0.0/24", blockLength: 28, reserved: [] }]
  expect(removePool(store, "constructor")).rejects.toThrow("there is no such pool")
  expect((await listPools(store)).map(({ name }) => name)).toEqual(["pods"])
  expect(await putPool(store, { ...podPool, name: "constructor", prefixes })).toBe("made")
  expect(await removePool(store, "constructor")).toMatchObject({ isGone: true })
})

test("two pools that overlap cannot be created, also not at the same time", async () => {
  const world = new World({ name: "pods" })
  const store = world.cluster.open()
  const other = (name: string, prefix: string) => ({
    ...podPool,
    name,
    prefixes: [{ prefix, blockLength: 28, reserved: [] }],
  })
  expect(putPool(store, other("two", "10.64.0.128/25"))).rejects.toThrow(
    'Cannot create pool "two": 10.64.0.128/25 overlaps with 10.64.0.0/24 of pool "pods"',
  )
  expect(putPool(store, other("around", "10.64.0.0/20"))).rejects.toThrow(
    'Cannot create pool "around": 10.64.0.0/20 overlaps with 10.64.0.0/24 of pool "pods"',
  )
  const racing = await Promise.allSettled([
    putPool(world.cluster.open(), other("x", "10.65.0.0/24")),
    putPool(world.cluster.open(), other("y", "10.65.0.0/25")),
  ])
  expect(racing.map(({ status }) => status).sort()).toEqual(["fulfilled", "rejected"])
  await putPool(store, { ...podPool, routes: [], quarantineS: 7 })
  expect((await listPools(store)).find(({ name }) => name === "pods")).toMatchObject({ quarantineS: 7, routes: [] })
  expect(putPool(store, { ...podPool, network: "other" })).rejects.toThrow("which never change")
})
