import { afterEach, beforeEach, expect, test } from "bun:test"
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { formatPoolFile, type PoolFile } from "../../ipam/host-local/main.ts"
import { listPools, putPool } from "../pools.ts"
import type { Block, Owner, Pool } from "../records.ts"
import type { Store } from "../store.ts"
import { DirectoryStore } from "../stores/directory.ts"
import { planHostLocal, planHostLocalBack } from "./host-local.ts"
import { carryOut, describeStep, type Plan, type Step, type World } from "./steps.ts"
import { heldAddresses, planWhereabouts, planWhereaboutsBack } from "./whereabouts.ts"
import { openWorld, type Places, readBlocksOf, readScene } from "./world.ts"

const owner: Owner = { name: "node-1", uid: "uid-1", machineId: "machine-1" }
const other: Owner = { name: "node-2", uid: "uid-2", machineId: "machine-2" }

let root: string
let store: Store
let places: Places
let world: World

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "cni-migrate-"))
  store = new DirectoryStore(join(root, "store"))
  places = { poolDir: join(root, "pools"), dataDir: join(root, "networks"), confDir: join(root, "net.d") }
  for (const directory of Object.values(places)) mkdirSync(directory)
  mkdirSync(join(places.dataDir, "pods"))
  // The agent of the node is played here: it writes each block of the node to the file as soon as it is waited for.
  world = { ...openWorld(store, owner, places), awaitBlocks: async () => writePoolFile() }
})
afterEach(async () => {
  await store[Symbol.asyncDispose]()
  rmSync(root, { recursive: true })
})

async function writePoolFile(): Promise<void> {
  const [pool] = await listPools(store)
  const mine = (await readBlocksOf(store, "pods")).filter((block) => block.owner.name === owner.name)
  const sets = (pool?.prefixes ?? []).map(({ prefix, blockLength }) => {
    return { prefix, blockLength, blocks: mine.map((block) => block.prefix), draining: [], reserved: [] }
  })
  const directory = join(places.dataDir, "pods")
  const machineId = readFileSync("/etc/machine-id", "utf8").trim()
  const node = { ...owner, machineId }
  const file: PoolFile = { version: 1, pool: "pods", epoch: 1, node, store: directory, sets, routes: [], fixed: {} }
  writeFileSync(join(places.poolDir, "pods.json"), formatPoolFile(file))
}

const ranges = { type: "host-local", ranges: [[{ subnet: "10.85.0.0/24" }]], routes: [{ dst: "0.0.0.0/0" }] }
const networkOf = (ipam: object) => ({
  cniVersion: "1.1.0",
  name: "pods",
  plugins: [{ type: "bridge", bridge: "cni0", ipam }, { type: "portmap" }],
})
const confFile = () => join(places.confDir, "10-pods.conflist")
const writeNetwork = (ipam: object) => {
  writeFileSync(
    confFile(),
    JSON.stringify({
      ...networkOf(ipam),
      plugins: networkOf(ipam).plugins.map((each) =>
        "ipam" in each ? { ...each, ipam: { ...each.ipam, dataDir: places.dataDir } } : each,
      ),
    }),
  )
  return readFileSync(confFile(), "utf8")
}
const reserve = (address: string, id: string) => writeFileSync(join(places.dataDir, "pods", address), `${id}\r\neth0`)
const podsPool = (more: Partial<Pool["prefixes"][number]> = {}): Pool => ({
  name: "pods",
  prefixes: [{ prefix: "10.85.0.0/16", blockLength: 24, reserved: [], ...more }],
  routes: [],
  network: "pods",
  quarantineS: 60,
  routing: "none",
})
const scene = () => readScene(store, world, { network: "pods", poolName: "pods", places })
const plan = async () => planHostLocal(await scene())
const planBack = async () => planHostLocalBack(await scene())
const words = ({ steps }: Plan) => steps.map((step) => describeStep(step).replaceAll(root, ""))
const run = (steps: readonly Step[]) => carryOut(steps, world, { tell: () => {}, planAgain: plan })
const own = (prefix: string, of = owner, state: Block["state"] = "owned") =>
  store.create("block", `pods/${prefix}`, { pool: "pods", prefix, owner: of, nonce: "n", epoch: 1, state })
const ipamNow = () => JSON.parse(readFileSync(confFile(), "utf8")).plugins[0].ipam

test("from host-local: blocks in which containers have addresses are claimed before the configuration is changed", async () => {
  const before = writeNetwork(ranges)
  reserve("10.85.0.2", "c1")
  reserve("10.85.0.3", "c2")
  writeFileSync(join(places.dataDir, "pods/last_reserved_ip.0"), "10.85.0.3")
  await putPool(store, podsPool({ reserved: ["10.85.0.0/22"] }))
  const planned = await plan()
  expect(planned.problems).toEqual([])
  expect(words(planned)).toEqual([
    'keep "/net.d/10-pods.conflist" as it is now, for --back',
    'claim block 10.85.0.0/24 of pool "pods" for this node: 10.85.0.2 of container c1, interface eth0 and 1 more',
    'have pool "pods" keep back 10.85.0.0/32, 10.85.0.255/32, 10.85.1.0/24, 10.85.2.0/23: the ranges of this node are free for blocks',
    'wait until the agent has written 10.85.0.0/24 to the file of pool "pods" on this node',
    'write "/net.d/10-pods.conflist": host-local takes addresses of pool "pods" in place of ranges',
    "look again at the reservations, and claim the blocks of addresses that were handed out since",
  ])
  await run(planned.steps)
  expect(ipamNow()).toEqual({
    type: "host-local",
    routes: [{ dst: "0.0.0.0/0" }],
    dataDir: places.dataDir,
    pool: "pods",
    poolDir: places.poolDir,
  })
  expect((await readBlocksOf(store, "pods")).map(({ prefix, owner: { name } }) => [prefix, name])).toEqual([
    ["10.85.0.0/24", "node-1"],
  ])
  expect(readFileSync(join(places.dataDir, "pods/10.85.0.2"), "utf8")).toBe("c1\r\neth0")
  expect(words(await plan())).toEqual([])

  await run((await planBack()).steps)
  expect(readFileSync(confFile(), "utf8")).toBe(before)
  expect((await listPools(store))[0]?.prefixes[0]?.reserved).toEqual(["10.85.0.0/22"])
  expect(world.readSaved("pods")).toBeUndefined()
})

test("a migration that ended between any two steps is continued by the next run, and ends the same", async () => {
  for (let count = 0; count <= 5; count++) {
    const before = writeNetwork(ranges)
    reserve("10.85.0.2", "c1")
    await putPool(store, podsPool({ reserved: ["10.85.0.0/22"] }))
    const { steps } = await plan()
    expect(steps).toHaveLength(6)
    await run(steps.slice(0, count))
    const rest = await plan()
    expect(rest.problems).toEqual([])
    await run(rest.steps)
    expect(ipamNow().pool).toBe("pods")
    expect(world.readSaved("pods")?.text).toBe(before)
    expect((await readBlocksOf(store, "pods")).map(({ prefix }) => prefix)).toEqual(["10.85.0.0/24"])
    const back = (await planBack()).steps
    await run(back.slice(0, count % back.length))
    await run((await planBack()).steps)
    expect(readFileSync(confFile(), "utf8")).toBe(before)
    for (const record of await store.list("block")) await store.remove(record)
    rmSync(join(places.poolDir, "pods.json"))
  }
})

test("an address that was handed out while the configuration was changed has its block claimed, too", async () => {
  writeNetwork({ ...ranges, ranges: [[{ subnet: "10.85.0.0/22" }]] })
  await putPool(store, podsPool())
  reserve("10.85.0.2", "c1")
  const { steps } = await plan()
  const late = {
    ...world,
    writeText: (file: string, text: string) => {
      world.writeText(file, text)
      reserve("10.85.3.9", "late")
    },
  }
  await carryOut(steps, late, { tell: () => {}, planAgain: plan })
  expect((await readBlocksOf(store, "pods")).map(({ prefix }) => prefix).sort()).toEqual([
    "10.85.0.0/24",
    "10.85.1.0/24",
    "10.85.3.0/24",
  ])
})

test.each<[string, () => unknown, RegExp]>([
  ["no pool", () => writeNetwork(ranges), /there is no pool "pods".*cni-agent ipam pool create pods/],
  [
    "a pool for another network",
    async () => {
      writeNetwork(ranges)
      await putPool(store, { ...podsPool(), network: "lan" })
    },
    /pool "pods" is for network "lan"/,
  ],
  [
    "a range that the pool has not",
    async () => {
      writeNetwork({ ...ranges, ranges: [[{ subnet: "10.99.0.0/24" }]] })
      await putPool(store, podsPool())
    },
    /of range 10\.99\.0\.0\/24 is not in pool "pods"/,
  ],
  [
    "a gateway that a block would not have",
    async () => {
      writeNetwork({ ...ranges, ranges: [[{ subnet: "10.85.0.0/24", gateway: "10.85.0.9" }]] })
      await putPool(store, podsPool())
    },
    /the gateway of range 10\.85\.0\.0\/24 is 10\.85\.0\.9/,
  ],
  [
    "a container with the address that is a block's gateway",
    async () => {
      writeNetwork(ranges)
      reserve("10.85.0.65", "c1")
      await putPool(store, podsPool({ blockLength: 26 }))
    },
    /10\.85\.0\.65 of container c1, interface eth0 is the gateway of block 10\.85\.0\.64\/26/,
  ],
  [
    "a block of another node in which a container here has an address",
    async () => {
      writeNetwork(ranges)
      reserve("10.85.0.2", "c1")
      await putPool(store, podsPool())
      await own("10.85.0.0/24", other)
    },
    /node "node-2" owns block 10\.85\.0\.0\/24, and 10\.85\.0\.2 of container c1/,
  ],
  [
    "a pool already",
    () => writeNetwork({ type: "host-local", pool: "pods" }),
    /takes its addresses from pool "pods" already/,
  ],
])("from host-local, %s: refused, and nothing is planned but what is safe", async (_, prepare, problem) => {
  await prepare()
  expect((await plan()).problems.join("\n")).toMatch(problem)
})

test("an address in a block of another node stays kept back until its container has ended", async () => {
  writeNetwork({ ...ranges, ranges: [[{ subnet: "10.85.0.0/24", rangeStart: "10.85.0.10", rangeEnd: "10.85.0.99" }]] })
  reserve("10.85.0.70", "c1")
  reserve("10.85.0.11", "c2")
  await putPool(
    store,
    podsPool({ blockLength: 26, gateway: "10.85.0.1", prefix: "10.85.0.0/24", reserved: ["10.85.0.64/26"] }),
  )
  await own("10.85.0.64/26", other)
  const network = JSON.parse(readFileSync(confFile(), "utf8"))
  network.plugins[0].ipam.ranges[0][0].gateway = "10.85.0.1"
  writeFileSync(confFile(), JSON.stringify(network))
  const planned = await plan()
  expect(planned.problems).toEqual([])
  expect(planned.notes).toHaveLength(1)
  await run(planned.steps)
  expect((await listPools(store))[0]?.prefixes[0]?.reserved).toContain("10.85.0.70/32")
  rmSync(join(places.dataDir, "pods/10.85.0.70"))
  await run((await plan()).steps)
  expect((await listPools(store))[0]?.prefixes[0]?.reserved).toEqual([
    "10.85.0.100/30",
    "10.85.0.104/29",
    "10.85.0.112/28",
  ])
})

test("nodes that migrate at the same time leave each other's reserved prefixes alone", async () => {
  writeNetwork(ranges)
  await putPool(store, podsPool({ reserved: ["10.85.0.0/22"] }))
  const reserved = async () => (await listPools(store))[0]?.prefixes[0]?.reserved.join(" ")
  const there = (await plan()).steps
  await putPool(store, podsPool({ reserved: ["10.85.0.0/23", "10.85.3.0/24"] })) // another node frees its range after this one has planned
  await run(there)
  expect(await reserved()).toBe("10.85.0.0/32 10.85.0.255/32 10.85.1.0/24 10.85.3.0/24")
  const back = (await planBack()).steps
  const ends = ["10.85.0.0/32", "10.85.0.255/32"]
  await putPool(store, podsPool({ reserved: [...ends, "10.85.1.0/24", "10.85.2.0/23"] })) // and takes it back
  await run(back)
  expect(await reserved()).toBe("10.85.0.0/22")
})

test("the rest of a range is free for other nodes only when the configuration is written", async () => {
  writeNetwork({ ...ranges, ranges: [[{ subnet: "10.85.0.0/22" }]] })
  await putPool(store, podsPool({ reserved: ["10.85.0.0/21"] }))
  reserve("10.85.0.2", "c1")
  const { steps } = await plan()
  const reserves = steps.flatMap((step, at) => (step.do === "reserve" ? [at] : []))
  const written = steps.findIndex((step) => step.do === "write")
  expect(reserves.map((at) => at < written)).toEqual([true, false])
  await run(steps.slice(0, written + 1))
  const reserved = async () => (await listPools(store))[0]?.prefixes[0]?.reserved.join(" ")
  expect(await reserved()).toBe("10.85.0.0/32 10.85.2.0/23 10.85.4.0/22")
  await run((await plan()).steps)
  expect(await reserved()).toBe("10.85.0.0/32 10.85.3.255/32 10.85.4.0/22")
  expect(words(await plan())).toEqual([])
})

test("the way back ends before the configuration when another node claims a block in the ranges in between", async () => {
  writeNetwork({ ...ranges, ranges: [[{ subnet: "10.85.0.0/22" }]] })
  chmodSync(confFile(), 0o600)
  await putPool(store, podsPool())
  await run((await plan()).steps)
  const after = readFileSync(confFile(), "utf8")
  const back = await planBack()
  expect(back.problems).toEqual([])
  await own("10.85.3.0/24", other)
  const doing = carryOut(back.steps, world, { tell: () => {}, planAgain: planBack })
  await expect(doing).rejects.toThrow('node "node-2" owns block 10.85.3.0/24')
  expect(readFileSync(confFile(), "utf8")).toBe(after)
  expect(statSync(confFile()).mode & 0o777).toBe(0o600)
})

test("the way back is refused when another node owns a block in the ranges by then", async () => {
  writeNetwork(ranges)
  await putPool(store, podsPool())
  await run((await plan()).steps)
  for (const record of await store.list("block")) await store.remove(record)
  await own("10.85.0.0/24", other)
  expect((await planBack()).problems).toEqual([
    'node "node-2" owns block 10.85.0.0/24, which is in the ranges of network "pods"',
  ])
})

const whereabouts = {
  type: "whereabouts",
  range: "192.168.2.0/24",
  range_start: "192.168.2.16",
  exclude: ["192.168.2.128/25"],
  gateway: "192.168.2.1",
  network_name: "lan",
  node_slice_size: "/26",
  routes: [{ dst: "198.51.100.0/24" }],
  log_file: "/tmp/whereabouts.log",
}
const ippools = (offsets: readonly number[]) => ({
  kind: "List",
  items: [
    {
      metadata: { name: "lan-192.168.2.0-24", namespace: "kube-system" },
      spec: {
        range: "192.168.2.0/24",
        allocations: Object.fromEntries(
          offsets.map((offset) => [String(offset), { id: `c${offset}`, podref: `shop/web-${offset}`, ifname: "net1" }]),
        ),
      },
    },
    { metadata: { name: "other-192.168.2.0-24" }, spec: { range: "192.168.2.0/24", allocations: { 40: {} } } },
  ],
})
const whereaboutsScene = async (offsets?: readonly number[]) => ({
  network: "pods",
  file: confFile(),
  text: readFileSync(confFile(), "utf8"),
  saved: world.readSaved("pods"),
  poolName: "pods",
  pool: (await listPools(store))[0],
  held: offsets && heldAddresses(ippools(offsets), "lan"),
})

test("from whereabouts: first the configuration, then the pool, which keeps back what is handed out until it is free", async () => {
  const before = writeNetwork(whereabouts)
  const first = planWhereabouts(await whereaboutsScene())
  expect(first.problems).toEqual([])
  expect(words(first)).toEqual([
    'keep "/net.d/10-pods.conflist" as it is now, for --back',
    'write "/net.d/10-pods.conflist": host-local takes addresses of pool "pods" in place of whereabouts',
  ])
  expect(first.notes.join("\n")).toContain(
    '"ipam": {"type":"host-local","pool":"pods","routes":[{"dst":"198.51.100.0/24"}],',
  )
  expect(first.notes.join("\n")).toContain(
    "kubectl get ippools.whereabouts.cni.cncf.io -A -o json | cni-agent migrate whereabouts pods --ippools -",
  )
  await run(first.steps)
  expect(ipamNow()).toEqual({ type: "host-local", pool: "pods", routes: whereabouts.routes, dataDir: places.dataDir })

  await run(planWhereabouts(await whereaboutsScene([20, 21, 30])).steps)
  const reserved = async () => (await listPools(store))[0]?.prefixes[0]?.reserved
  expect((await listPools(store))[0]).toMatchObject({
    network: "pods",
    prefixes: [{ prefix: "192.168.2.0/24", blockLength: 28, gateway: "192.168.2.1" }],
  })
  expect(await reserved()).toEqual(["192.168.2.0/28", "192.168.2.20/31", "192.168.2.30/32", "192.168.2.128/25"])
  expect(words(planWhereabouts(await whereaboutsScene([20, 21, 30])))).toEqual([])

  await run(planWhereabouts(await whereaboutsScene([21])).steps)
  expect(await reserved()).toEqual(["192.168.2.0/28", "192.168.2.21/32", "192.168.2.128/25"])
  await own("192.168.2.32/28")
  expect(planWhereaboutsBack({ ...(await whereaboutsScene()), owned: ["192.168.2.32/28"] }).problems[0]).toContain(
    "192.168.2.32/28",
  )
  await run(planWhereaboutsBack({ ...(await whereaboutsScene()), owned: [] }).steps)
  expect(readFileSync(confFile(), "utf8")).toBe(before)
})

test("whereabouts' range may name its first and last address, and may be of IPv6", async () => {
  writeNetwork({
    type: "whereabouts",
    ipRanges: [{ range: "192.168.2.16-192.168.2.127/24" }, { range: "fd00:2::/64", range_end: "fd00:2::ff" }],
  })
  const { steps, problems } = planWhereabouts({ ...(await whereaboutsScene()), held: [] })
  expect(problems).toEqual([])
  const [register] = steps.filter((step) => step.do === "register")
  expect(register?.pool.prefixes.map(({ prefix, blockLength, gateway }) => [prefix, blockLength, gateway])).toEqual([
    ["192.168.2.0/24", 28, "192.168.2.1"],
    ["fd00:2::/64", 124, "fd00:2::1"],
  ])
  expect(register?.pool.prefixes[0]?.reserved).toEqual(["192.168.2.0/28", "192.168.2.128/25"])
  expect(register?.pool.prefixes[1]?.reserved).toHaveLength(56)
})
