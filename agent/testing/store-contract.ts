import { describe, expect, test } from "bun:test"
import { waitFor, within } from "../../integration/lab/mod.ts"
import type { Block, FixedAddress, Kind, Node, Owner, Pool, Registry, Want } from "../records.ts"
import { keyOf } from "../records.ts"
import { type Store, type Stored, StoreError, type WatchEvent } from "../store.ts"

/** One store, made for a test and empty, and what the test can do to it besides its calls. It goes with the test. */
export interface StoreUnderTest extends AsyncDisposable {
  /** Another client of the store. The test closes it. */
  open(): Promise<Store>
  /** Has the cluster have these nodes; answers them as it has them, where it chooses UIDs itself. Absent: they are those with a node record. */
  setMembers?(members: readonly Owner[]): Promise<readonly Owner[]>
  /** Has the next change be made, and its answer be lost. */
  loseNextAnswer?(): void
  /** Has the next change not be made, and have no answer. */
  loseNextRequest?(): void
  /** Has every watch miss changes for good, as after a compaction; `during` makes some that no watch can hear of one by one. */
  makeGap?(during: () => Promise<void>): Promise<void>
}

/** What every store must do, as cases for `bun test`. `makeStore` makes an empty store; it is called once for each case. */
export function testStoreContract(name: string, makeStore: () => Promise<StoreUnderTest>): void {
  const withStore = (title: string, work: (under: StoreUnderTest, store: Store) => Promise<void>) =>
    test(title, async () => {
      await using under = await makeStore()
      await using store = await under.open()
      await work(under, store)
    }, 120_000)

  describe(`${name}, by the contract of all stores:`, () => {
    withStore("a record is found as it was written, by its kind and key", async (_, store) => {
      for (const [kind, key, value] of samples) {
        const made = defined(await store.create(kind, key, value))
        const found = defined(await store.find(kind, key))
        expect([found.kind, found.key, found.value, found.version]).toEqual([kind, key, value, made.version])
        expect(found.revision).toBe(made.revision)
        expect(await store.list(kind)).toMatchObject([{ kind, key, value, version: made.version }])
      }
      expect(await store.find("block", "pods/10.64.9.0/26")).toBeUndefined()
    })

    withStore("a record is not created where there is one", async (under, store) => {
      await using other = await under.open()
      await store.create("block", key(1), block(1))
      expect(await other.create("block", key(1), block(1, { nonce: "other" }))).toBeUndefined()
      expect((await store.find("block", key(1)))?.value).toEqual(block(1))
    })

    withStore("of 20 clients that create one record at the same time one succeeds", async (under, store) => {
      const clients = await Promise.all(Array.from({ length: 20 }, () => under.open()))
      const made = await Promise.all(
        clients.map((client, at) => client.create("block", key(1), block(1, { nonce: `nonce-${at}` }))),
      )
      const winners = made.flatMap((each) => each?.value.nonce ?? [])
      expect(winners).toHaveLength(1)
      expect((await store.find("block", key(1)))?.value.nonce).toBe(winners[0] ?? "")
      for (const client of clients) await client[Symbol.asyncDispose]()
    })

    withStore("of 10 clients that replace one version one succeeds", async (under, store) => {
      const first = defined(await store.create("block", key(1), block(1)))
      const clients = await Promise.all(Array.from({ length: 10 }, () => under.open()))
      const made = await Promise.all(clients.map((client, at) => client.replace(first, block(1, { epoch: at + 2 }))))
      const winners = made.flatMap((each) => each?.value.epoch ?? [])
      expect(winners).toHaveLength(1)
      expect((await store.find("block", key(1)))?.value.epoch).toBe(winners[0] ?? 0)
      for (const client of clients) await client[Symbol.asyncDispose]()
    })

    withStore("only the newest version is replaced, and each has a greater revision", async (_, store) => {
      const first = defined(await store.create("block", key(1), block(1)))
      const second = defined(await store.replace(first, block(1, { state: "draining" })))
      expect(second.revision > first.revision && second.version !== first.version).toBe(true)
      expect(await store.replace(first, block(1, { state: "quarantined" }))).toBeUndefined()
      expect((await store.find("block", key(1)))?.value.state).toBe("draining")
      const same = defined(await store.replace(second, second.value)) // its version may stay
      expect(await store.remove(same)).toBe(true)
    })

    withStore("only the newest version is removed, and then nothing is replaced or removed", async (_, store) => {
      const first = defined(await store.create("block", key(1), block(1)))
      const second = defined(await store.replace(first, block(1, { epoch: 2 })))
      expect(await store.remove(first)).toBe(false)
      expect(await store.find("block", key(1))).toBeDefined()
      expect(await store.remove(second)).toBe(true)
      expect(await store.find("block", key(1))).toBeUndefined()
      expect(await store.remove(second)).toBe(false)
      expect(await store.replace(second, block(1))).toBeUndefined()
      expect(await store.find("block", key(1))).toBeUndefined()
    })

    withStore("a version of a record that was removed and created again is not the new one's", async (_, store) => {
      const first = defined(await store.create("block", key(1), block(1)))
      await store.remove(first)
      const again = defined(await store.create("block", key(1), block(1)))
      expect(again.revision > first.revision && again.version !== first.version).toBe(true)
      expect(await store.replace(first, block(1, { epoch: 9 }))).toBeUndefined()
      expect(await store.remove(first)).toBe(false)
      expect((await store.find("block", key(1)))?.version).toBe(again.version)
    })

    withStore("a record is also replaced and removed as `find` and `list` have read it", async (under, store) => {
      await using other = await under.open()
      await store.create("block", key(1), block(1))
      const found = defined(await other.find("block", key(1)))
      await other.replace(found, block(1, { epoch: 2 }))
      const [listed] = await store.list("block")
      expect(await store.remove(defined(listed))).toBe(true)
    })

    withStore("keys with odd characters are kept apart, and come back unchanged", async (_, store) => {
      const values = oddNames.map(fixed)
      for (const value of values) defined(await store.create("fixed", keyOf.fixed(value), value))
      const found = await store.list("fixed")
      expect(found.map((each) => each.key).sort()).toEqual(values.map(keyOf.fixed).sort())
      for (const value of values) {
        const stored = defined(await store.find("fixed", keyOf.fixed(value)))
        expect(stored.value).toEqual(value)
        expect(await store.remove(stored)).toBe(true)
      }
      expect(await store.list("fixed")).toEqual([])
    })

    withStore("blocks of IPv6 are kept apart by their prefixes", async (_, store) => {
      const prefixes = ["fd00:64::/80", "fd00:64:0:0:1::/80", "fd00:64:0:0:2::/80", "::/80", "fd00:64::/122"]
      const values = prefixes.map((prefix) => ({ ...block(1), pool: "pods.v6", prefix }))
      for (const value of values) defined(await store.create("block", keyOf.block(value), value))
      const found = await store.list("block")
      expect(found.map((each) => each.key).sort()).toEqual(values.map(keyOf.block).sort())
      expect(found.map((each) => each.value.prefix).sort()).toEqual([...prefixes].sort())
    })

    withStore("kinds have keys of their own", async (_, store) => {
      await store.create("registry", "pools", registry)
      expect(await store.find("node", "pools")).toBeUndefined()
      expect(await store.list("node")).toEqual([])
      expect(await store.create("node", "pools", { owner: owner("pools"), addresses: [] })).toBeDefined()
    })

    withStore("a thousand records are listed whole, and watched whole", async (_, store) => {
      const numbers = Array.from({ length: 1000 }, (_, at) => at)
      for (let at = 0; at < 1000; at += 50) {
        await Promise.all(numbers.slice(at, at + 50).map((each) => store.create("block", key(each), block(each))))
      }
      const expected = numbers.map(key).sort()
      expect((await store.list("block")).map((each) => each.key).sort()).toEqual(expected)
      await using watch = new Watch(store, "block")
      await watch.until((records) => records.size === 1000)
      expect([...watch.records.keys()].sort()).toEqual(expected)
    })

    withStore("a watch begins with all records, also with none", async (_, store) => {
      await using none = new Watch(store, "block")
      await none.until(() => none.events.length > 0)
      expect(none.events[0]).toEqual({ type: "all", records: [] })
      await store.create("block", key(1), block(1))
      await using one = new Watch(store, "block")
      await one.until(() => one.events.length > 0)
      expect(one.events[0]).toMatchObject({ type: "all", records: [{ key: key(1), value: block(1) }] })
    })

    withStore(
      "a watch hears of each record that another client changes, and of no other kind",
      async (under, store) => {
        await using other = await under.open()
        await using watch = new Watch(store, "block")
        await watch.until(() => watch.events.length > 0)
        const first = defined(await other.create("block", key(1), block(1)))
        await watch.until((records) => records.get(key(1))?.version === first.version)
        const second = defined(await other.replace(first, block(1, { state: "draining" })))
        await watch.until((records) => records.get(key(1))?.version === second.version)
        expect(watch.records.get(key(1))?.value).toEqual(block(1, { state: "draining" }))
        await other.create("node", "node-1", { owner: owner("node-1"), addresses: [] })
        await other.remove(second)
        await watch.until((records) => !records.has(key(1)))
        const kinds = watch.events.map(({ type }) => type)
        expect(kinds.filter((type) => type !== "all")).toEqual(["put", "put", "removed"])
        // What a watch reads can be replaced: its versions are those of `find`.
        const third = defined(await other.create("block", key(2), block(2)))
        await watch.until((records) => records.has(key(2)))
        expect(await store.remove(defined(watch.records.get(key(2))))).toBe(true)
        expect(third.version).not.toBe(second.version)
      },
    )

    withStore("a watch that began before many changes ends up with what is there", async (under, store) => {
      await using watch = new Watch(store, "block")
      await using other = await under.open()
      const random = seeded(7)
      const there = new Map<string, Stored<"block">>()
      for (let step = 0; step < 200; step++) {
        const number = random(10)
        const at = key(number)
        const known = there.get(at)
        if (!known) there.set(at, defined(await other.create("block", at, block(number))))
        else if (random(2) === 0) there.set(at, defined(await other.replace(known, block(number, { epoch: step }))))
        else if (await other.remove(known)) there.delete(at)
      }
      const versions = (records: ReadonlyMap<string, Stored<"block">>) =>
        JSON.stringify([...records.values()].map((each) => `${each.key} ${each.version}`).sort())
      await watch.until((records) => versions(records) === versions(there))
    })

    withStore("a watch ends without an error when its signal is aborted, also one that waits", async (_, store) => {
      const ended = new AbortController()
      const seen: string[] = []
      const reading = (async () => {
        for await (const { type } of store.watch("block", ended.signal)) {
          seen.push(type)
          setTimeout(() => ended.abort(), 10)
        }
      })()
      await within(reading, "the watch to end")
      expect(seen).toEqual(["all"])
    })

    withStore("the store has one id, and a revision that grows with each change", async (under, store) => {
      await using other = await under.open()
      const before = await store.identity()
      expect(before.cluster).not.toBe("")
      const made = defined(await store.create("block", key(1), block(1)))
      const between = await other.identity()
      expect(between.cluster).toBe(before.cluster)
      expect(between.revision > before.revision && made.revision <= between.revision).toBe(true)
      await other.remove(made)
      expect((await store.identity()).revision > between.revision).toBe(true)
    })

    withStore("the members are the cluster's nodes, by name, UID and machine id", async (under, store) => {
      const wished = [owner("node-1"), owner("node-2")]
      const members = (await under.setMembers?.(wished)) ?? wished
      if (!under.setMembers)
        for (const each of members) await store.create("node", each.name, { owner: each, addresses: [] })
      const found = (await store.members()).map((each) => [each.name, each.uid]).sort()
      expect(found).toEqual(members.map((each) => [each.name, each.uid]).sort())
    })

    withStore('a create whose answer was lost throws "unknown", and is told by its nonce', async (under, store) => {
      if (!under.loseNextAnswer) return
      under.loseNextAnswer()
      expect(await outcomeOf(store.create("block", key(1), block(1)))).toBe("unknown")
      await waitFor(
        async () => (await store.find("block", key(1)))?.value.nonce === block(1).nonce,
        "the late creation",
      )
      expect(await store.create("block", key(1), block(1))).toBeUndefined()
    })

    withStore('a replace or remove whose answer was lost throws "unknown"', async (under, store) => {
      if (!under.loseNextAnswer) return
      const first = defined(await store.create("block", key(1), block(1)))
      under.loseNextAnswer()
      expect(await outcomeOf(store.replace(first, block(1, { epoch: 2 })))).toBe("unknown")
      await waitFor(async () => (await store.find("block", key(1)))?.value.epoch === 2, "the late replacement")
      expect(await store.replace(first, block(1, { epoch: 2 }))).toBeUndefined()
      const second = defined(await store.find("block", key(1)))
      under.loseNextAnswer()
      expect(await outcomeOf(store.remove(second))).toBe("unknown")
      await waitFor(async () => (await store.find("block", key(1))) === undefined, "the late removal")
    })

    withStore(
      'a create whose request was lost throws "unknown" or "refused", and may be sent again',
      async (under, store) => {
        if (!under.loseNextRequest) return
        under.loseNextRequest()
        expect(["unknown", "refused"]).toContain(await outcomeOf(store.create("block", key(1), block(1))))
        expect(await store.create("block", key(1), block(1))).toBeDefined()
      },
    )

    withStore("a watch that has missed changes for good begins anew with all records", async (under, store) => {
      if (!under.makeGap) return
      const kept = defined(await store.create("block", key(1), block(1)))
      await using watch = new Watch(store, "block")
      await watch.until((records) => records.size === 1)
      await using other = await under.open()
      await under.makeGap(async () => {
        await other.remove(kept)
        await other.create("block", key(2), block(2))
      })
      await watch.until((records) => records.has(key(2)) && !records.has(key(1)))
    })
  })
}

/** The records that a watch has told of so far, and its events. It is opened again after an error, as callers do. */
class Watch<K extends Kind> implements AsyncDisposable {
  readonly records = new Map<string, Stored<K>>()
  readonly events: WatchEvent<K>[] = []
  readonly #ended = new AbortController()
  readonly #done: Promise<void>

  constructor(store: Store, kind: K) {
    this.#done = this.#follow(store, kind)
  }

  async #follow(store: Store, kind: K): Promise<void> {
    while (!this.#ended.signal.aborted) {
      try {
        for await (const event of store.watch(kind, this.#ended.signal)) this.#take(event)
      } catch (error) {
        if (!(error instanceof StoreError)) throw error
      }
    }
  }

  #take(event: WatchEvent<K>): void {
    this.events.push(event)
    if (event.type === "all") {
      this.records.clear()
      for (const record of event.records) this.records.set(record.key, record)
    } else if (event.type === "put") this.records.set(event.record.key, event.record)
    else this.records.delete(event.key)
  }

  /** Waits until the records are as they should be. */
  async until(isTrue: (records: ReadonlyMap<string, Stored<K>>) => boolean): Promise<void> {
    await waitFor(() => isTrue(this.records), "the watch to have told the records")
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#ended.abort()
    await within(this.#done, "the watch to end")
  }
}

async function outcomeOf(call: Promise<unknown>): Promise<string> {
  try {
    await call
    return "done"
  } catch (error) {
    return error instanceof StoreError ? error.outcome : String(error)
  }
}

function defined<T>(value: T | undefined): T {
  if (value === undefined) throw new Error("the store answered undefined")
  return value
}

function owner(name: string): Owner {
  return { name, uid: `6d9c2f4e-${name}`, machineId: "1c1b6a7e5d9f4b0f8f1d2c3b4a596877" }
}

/** Block 3 is 10.64.0.192/26. */
function block(at: number, changes: Partial<Block> = {}): Block {
  const prefix = `10.64.${(at >> 2) & 255}.${(at & 3) * 64}/26`
  return { pool: "pods", prefix, owner: owner("node-1"), nonce: `nonce-${at}`, epoch: 1, state: "owned", ...changes }
}

function key(at: number): string {
  return keyOf.block(block(at))
}

function fixed([namespace, pod, ifName]: readonly [string, string, string]): FixedAddress {
  return { pool: "pods", namespace, pod, ifName, addresses: ["10.64.200.7", "fd00:64::7"], nonce: "n" }
}

/** Interface names may have every character but "/" and space. */
const oddNames = [
  ["db", "mysql-0", "eth0"],
  ["db", "mysql-0", "eth0.100"],
  ["db", "mysql-0", "ETH0"],
  ["db", "mysql-0", "eth0:1"],
  ["db", "mysql-0", "a_b"],
  ["db", "mysql-0", "a-b"],
  ["db", "mysql-0", "a%2Fb"],
  ["db", "mysql-0", "net\u00e9"],
  ["db", "mysql-0.eth0", "x"],
  ["db.mysql-0", "eth0", "x"],
  ["a".repeat(63), `${"b".repeat(60)}.${"c".repeat(60)}.${"d".repeat(60)}.${"e".repeat(60)}`, "abcdefghijklmno"],
  ["a".repeat(63), `${"b".repeat(60)}.${"c".repeat(60)}.${"d".repeat(60)}.${"e".repeat(60)}`, "abcdefghijklmnp"],
] as const

const pool: Pool = {
  name: "pods",
  prefixes: [
    { prefix: "10.64.0.0/16", blockLength: 26, reserved: ["10.64.200.0/24"] },
    { prefix: "fd00:64::/48", blockLength: 80, gateway: "fd00:64::1", reserved: [] },
  ],
  routes: [{ dst: "0.0.0.0/0", gw: "10.64.0.1" }],
  network: "pods-net",
  quarantineS: 86_400,
  routing: "host-gw",
}

const registry: Registry = { pools: { pods: pool } }
const node: Node = { owner: owner("node-1"), addresses: ["192.0.2.1", "2001:db8::1"] }
const held: FixedAddress = { ...fixed(["db", "mysql-0", "eth0"]), holder: owner("node-1") }

const samples: readonly (readonly [Kind, string, Registry | Block | Node | FixedAddress | Want])[] = [
  ["registry", keyOf.registry(), registry],
  ["block", key(3), block(3)],
  ["node", keyOf.node(node), node],
  ["fixed", keyOf.fixed(held), held],
  ["want", keyOf.want({ pool: "pods", owner: owner("node-1") }), { pool: "pods", owner: owner("node-1") }],
]

/** Numbers below a limit, the same ones each time. */
function seeded(seed: number): (limit: number) => number {
  let state = seed
  return (limit) => {
    state = (state * 1103515245 + 12345) & 0x7fffffff
    return (state >> 8) % limit
  }
}
