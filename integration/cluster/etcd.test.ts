import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { type Block, keyOf, type Store, type Stored, StoreError } from "../../agent/mod.ts"
import { type StoreUnderTest, testStoreContract } from "../../agent/testing/store-contract.ts"
import { patient, waitFor, within } from "../lab/mod.ts"
import { EtcdCluster, type EtcdOptions } from "./etcd-cluster.ts"
import { StoreProcess } from "./remote-store.ts"

/** A real cluster, and a process beside it with clients. It is emptied for each test. */
class Bench implements AsyncDisposable {
  readonly etcd: EtcdCluster
  readonly clients: StoreProcess

  private constructor(etcd: EtcdCluster) {
    this.etcd = etcd
    this.clients = new StoreProcess(etcd.lan)
  }

  static async start(options: EtcdOptions): Promise<Bench> {
    return new Bench(await EtcdCluster.start(options))
  }

  open(limits = {}): Promise<Store> {
    return this.clients.open(this.etcd.storeConfig, limits)
  }

  async empty(): Promise<void> {
    await waitFor(() => this.etcd.etcdctl("del", "--prefix", "/cni/"), "etcd to be empty")
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.clients[Symbol.asyncDispose]()
    await this.etcd[Symbol.asyncDispose]()
  }
}

const owner = { name: "node-1", uid: "6d9c2f4e", machineId: "" }

function block(at: number, changes: Partial<Block> = {}): Block {
  return { pool: "pods", prefix: `10.64.${at}.0/26`, owner, nonce: "n", epoch: 1, state: "owned", ...changes }
}

const make = (store: Store, at: number, nonce = "n") =>
  store.create("block", keyOf.block(block(at)), block(at, { nonce }))

/** The block, made as an agent does: asked for again where no answer came. A busy machine elects leaders at any time. */
const claimed = (store: Store, at: number, nonce = "n"): Promise<Stored<"block">> =>
  waitFor(
    async () => (await make(store, at, nonce)) ?? (await store.find("block", keyOf.block(block(at)))),
    "the block",
  )

async function errorOf(call: Promise<unknown>): Promise<StoreError> {
  const error = await call.then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  if (error instanceof StoreError) return error
  throw new Error(`expected a StoreError: ${error}`)
}

/** No election for a busy machine: each call of the contract is made once. */
const flags = ["--heartbeat-interval", "500", "--election-timeout", "5000"]

const kinds: [string, EtcdOptions][] = [
  ["etcd of one member", { members: 1, flags }],
  ["etcd of three members, with TLS and users", { members: 3, tls: true, auth: true, flags }],
]

describe.each(kinds)("%s", (name, options) => {
  let bench: Bench
  beforeAll(async () => {
    bench = await Bench.start(options)
  })
  afterAll(async () => {
    await bench?.[Symbol.asyncDispose]()
  })

  testStoreContract(name, async (): Promise<StoreUnderTest> => {
    await bench.empty()
    return { open: () => bench.open({ requestMs: 20_000 }), [Symbol.asyncDispose]: async () => {} }
  })
})

describe("three members of etcd", () => {
  let bench: Bench
  beforeAll(async () => {
    bench = await Bench.start({ members: 3 })
  })
  afterAll(async () => {
    await bench?.[Symbol.asyncDispose]()
  })
  /** All members run, and nothing is stored. */
  const fresh = async () => {
    for (const member of bench.etcd.members) {
      member.continue()
      await member.start()
    }
    await waitFor(async () => {
      const { stdout } = await bench.etcd.etcdctl("endpoint", "health")
      return !stdout.includes("unhealthy")
    }, "all members to be well")
    await bench.empty()
  }

  test("of 2,000 claims for 50 blocks by 16 clients 50 win, also while the leader is killed", async () => {
    await fresh()
    const { etcd } = bench
    const clients = await Promise.all(Array.from({ length: 16 }, () => bench.open({ requestMs: 2_000 })))
    let [done, unknown] = [0, 0]
    const winners: string[] = []
    /** Claims as an agent does: where no answer came, the same key and the same nonce again. */
    const claim = async (store: Store, at: number, nonce: string): Promise<void> => {
      for (;;) {
        try {
          if (await make(store, at, nonce)) break
          const found = await store.find("block", keyOf.block(block(at)))
          if (found?.value.nonce !== nonce) return
          break
        } catch (error) {
          if (!(error instanceof StoreError)) throw error
          if (error.outcome === "unknown") unknown++
        }
      }
      winners.push(`${at} ${nonce}`)
    }
    let isKilled = false
    const work = clients.map(async (store, client) => {
      for (let turn = 0; turn < 125; turn++) {
        await claim(store, (turn * 7 + client) % 50, `${client}-${turn}`)
        if (++done === 40 && !isKilled) {
          isKilled = true
          await (await etcd.leader()).kill()
        }
      }
    })
    await within(Promise.all(work), "all claims", 300_000)
    const stored = await waitFor(() => (clients[0] as Store).list("block"), "the list of what was claimed")
    expect(stored.map(({ value }) => `${value.prefix} ${value.nonce}`).sort()).toEqual(
      winners.map((each) => each.replace(/^(\d+)/, "10.64.$1.0/26")).sort(),
    )
    expect(winners).toHaveLength(50)
    expect(isKilled).toBe(true)
    console.log(`etcd: 2,000 claims for 50 blocks, the leader killed: ${winners.length} won, ${unknown} answers lost`)
  })

  test("without a quorum each call is a StoreError in bounded time, and the store goes on when it has one again", async () => {
    await fresh()
    const { etcd } = bench
    const store = await bench.open({ requestMs: 1_000 })
    await claimed(store, 1)
    const [first, second] = etcd.members
    await first?.kill()
    await second?.kill()
    const begunMs = performance.now()
    const calls = [() => make(store, 2), () => store.list("block"), () => store.identity(), () => store.members()]
    for (const call of calls) await errorOf(call())
    expect(performance.now() - begunMs).toBeLessThan(patient(60_000)) // four calls of three members with a second each, on a busy machine
    const error = await waitFor(async () => {
      const each = await errorOf(store.list("block"))
      return each.message.includes("the cluster has no leader") && each
    }, "the last member to know of no leader")
    expect(error.outcome).toBe("refused")
    expect((await errorOf(make(store, 3))).outcome).toBe("refused")
    await first?.start()
    const records = await waitFor(() => store.list("block"), "the store to answer again")
    expect(records.some(({ key }) => key === keyOf.block(block(1)))).toBe(true)
    expect(records.some(({ key }) => key === keyOf.block(block(3)))).toBe(false)
  })

  test("a watch goes on at another member when its own stands still or is killed, without a list", async () => {
    await fresh()
    const { etcd } = bench
    const leader = await etcd.leader()
    const [own, other] = etcd.members.filter((member) => member !== leader)
    const endpoints = [own, other, leader].flatMap((member) => member?.endpoint ?? [])
    const store = await bench.clients.open({ ...etcd.storeConfig, endpoints }, { requestMs: 3_000, idleMs: 200 })
    const writer = await bench.clients.open({ ...etcd.storeConfig, endpoints: [leader.endpoint] })
    const ended = new AbortController()
    const events = store.watch("block", ended.signal)[Symbol.asyncIterator]()
    expect((await events.next()).value).toEqual({ type: "all", records: [] })
    const put = async (at: number) => {
      const next = within(events.next(), "an event of the watch")
      await claimed(writer, at)
      return (await next).value
    }
    expect(await put(1)).toMatchObject({ type: "put", record: { key: keyOf.block(block(1)) } })
    await own?.stop()
    expect(await put(2)).toMatchObject({ type: "put", record: { key: keyOf.block(block(2)) } })
    own?.continue()
    await waitFor(() => etcd.etcdctl("endpoint", "health"), "all members to be well")
    await other?.kill()
    expect(await put(3)).toMatchObject({ type: "put", record: { key: keyOf.block(block(3)) } })
    ended.abort()
  })

  test("a watch whose history was compacted while its member stood still tells all records again", async () => {
    await fresh()
    const { etcd, clients } = bench
    const [first] = etcd.members
    const store = await bench.open({ requestMs: 120_000 }) // it stays with the member that stands still
    const writer = await clients.open({ ...etcd.storeConfig, endpoints: etcd.endpoints.slice(1) })
    await claimed(writer, 1)
    const ended = new AbortController()
    const events = store.watch("block", ended.signal)[Symbol.asyncIterator]()
    expect((await events.next()).value).toMatchObject({ type: "all", records: [{ key: keyOf.block(block(1)) }] })
    const second = within(events.next(), "an event of the watch")
    const made = await claimed(writer, 2)
    expect((await second).value).toMatchObject({ type: "put" })
    const next = within(events.next(), "all records")
    await first?.stop()
    await waitFor(() => writer.identity(), "a leader among the others")
    await waitFor(async () => (await writer.remove(made)) || !(await writer.find("block", made.key)), "the removal")
    const last = await claimed(writer, 3)
    const others = etcd.endpoints.slice(1)
    await waitFor(() => etcd.etcdctlOf(others, "compaction", String(last.revision)), "the compaction")
    await first?.kill()
    const expected = [keyOf.block(block(1)), keyOf.block(block(3))].map((key) => ({ key }))
    expect((await next).value).toMatchObject({ type: "all", records: expected })
    ended.abort()
  })

  test("members that were restarted are asked again", async () => {
    await fresh()
    const store = await bench.open({ requestMs: 2_000 })
    await claimed(store, 1)
    for (const member of bench.etcd.members) {
      await member.kill()
      await member.start()
      await waitFor(() => store.find("block", keyOf.block(block(1))), `the store to answer beside ${member.name}`)
    }
  })
})

describe("one member of etcd", () => {
  /** Has the lan drop what the member answers. */
  const dropAnswers = `
    table inet lost {
      chain input { type filter hook input priority 0; tcp sport 2379 counter drop; }
    }`

  test("a change whose answer is dropped after the commit is unknown, and has been made", async () => {
    await using bench = await Bench.start({ members: 1 })
    const { lan } = bench.etcd
    const store = await bench.open({ requestMs: 500 })
    await claimed(store, 1) // half a second may be too short for a busy machine
    await lan.exec("nft", ["-f", "-"], { input: dropAnswers })
    const error = await errorOf(make(store, 2, "mine"))
    expect([error.outcome, error.message]).toEqual([
      "unknown",
      'Cannot create the record "block/pods/10.64.2.0/26" in etcd: no answer within 500 ms',
    ])
    await lan.exec("nft", ["delete", "table", "inet", "lost"])
    const found = await waitFor(() => store.find("block", keyOf.block(block(2))), "the store to answer")
    expect(found.value.nonce).toBe("mine")
    expect(await make(store, 2, "mine")).toBeUndefined()
  })

  test("a version from before a backup was restored fits no record of after it, even at the same revision", async () => {
    await using bench = await Bench.start({ members: 1 })
    const { etcd } = bench
    const store = await bench.open()
    const first = await claimed(store, 1)
    const before = await store.identity()
    const backup = await etcd.snapshot()
    const lost = await store.replace(first, block(1, { epoch: 2, nonce: "lost" }))
    if (!lost) throw new Error("not replaced")
    await etcd.restore(backup)
    const restored = await waitFor(() => store.identity(), "the store to answer")
    expect(restored).toEqual(before)
    const found = await store.find("block", first.key)
    if (!found) throw new Error("not restored")
    const other = await store.replace(found, block(1, { epoch: 2, nonce: "other" }))
    expect(other?.revision).toBe(lost.revision)
    expect(await store.replace(lost, block(1, { epoch: 3 }))).toBeUndefined()
    expect(await store.remove(lost)).toBe(false)
    await etcd.restore(backup, "second")
    const anew = await waitFor(() => store.identity(), "the store to answer")
    expect(anew.cluster).not.toBe(before.cluster)
  })

  test("without space in etcd's database a change is an error that says so, and records can be read", async () => {
    await using bench = await Bench.start({ members: 1, flags: ["--quota-backend-bytes", "100000"] })
    const store = await bench.open()
    const made: string[] = []
    const fill = async () => {
      for (;;) made.push((await make(store, made.length + 1, "x".repeat(1000)))?.key ?? "")
    }
    const error = await errorOf(fill())
    expect([error.outcome, error.message]).toEqual(["unknown", expect.stringContaining("database space exceeded")])
    // What has failed is unknown: etcd may have noticed only after the change.
    const asked = keyOf.block(block(made.length + 1))
    const stored = (await store.list("block")).map(({ key }) => key)
    expect(stored.filter((key) => key !== asked).sort()).toEqual(made.sort())
  })

  test("the agent's user may do what it needs below the prefix, and nothing else", async () => {
    await using bench = await Bench.start({ members: 1, auth: true })
    const { etcd, clients } = bench
    const store = await bench.open()
    const made = await make(store, 1)
    expect(made && (await store.remove(made))).toBe(true)
    const elsewhere = await clients.open({ ...etcd.storeConfig, prefix: "/other/" })
    for (const call of [() => make(elsewhere, 1), () => elsewhere.list("block")]) {
      const error = await errorOf(call())
      expect([error.outcome, error.message]).toEqual(["refused", expect.stringContaining("permission denied")])
    }
    // The tokens of a member end with it.
    const [member] = etcd.members
    await member?.kill()
    await member?.start()
    expect(await waitFor(() => make(store, 2), "the store to answer")).toBeDefined()
  })
})
