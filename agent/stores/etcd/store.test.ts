import { describe, expect, test } from "bun:test"
import { waitFor, within } from "../../../integration/lab/mod.ts"
import type { Kind } from "../../records.ts"
import type { Store, StoreError, WatchEvent } from "../../store.ts"
import { testStoreContract } from "../../testing/store-contract.ts"
import { block, Cluster, errorOf, keyOfBlock, make } from "./cluster.fixture.ts"
import { FakeEtcd, FakeGateway, type Odd } from "./fake-gateway.fixture.ts"

testStoreContract("etcd with a gateway in memory", async () => new Cluster())

const only = (path: string, answer: () => Response | Promise<Response>): Odd => {
  return (asked) => (asked === path ? answer() : undefined)
}

test("a record is a key below the prefix, with JSON as its value", async () => {
  await using cluster = new Cluster()
  const made = await make(cluster.store(), 3)
  expect([...cluster.etcd.keys.keys()]).toEqual(["/cni/block/pods/10.64.3.0/26"])
  expect(JSON.parse(cluster.etcd.keys.get("/cni/block/pods/10.64.3.0/26")?.value ?? "")).toEqual(block(3))
  expect(made?.revision).toBe(9_007_199_254_740_994n) // the number would be 9007199254740994 or its neighbour
  await make(cluster.store({ prefix: "/site/a" }), 3)
  expect([...cluster.etcd.keys.keys()]).toContain("/site/a/block/pods/10.64.3.0/26")
})

test("each request asks the member whether it knows a leader: one that does not says so at once", async () => {
  await using cluster = new Cluster()
  const store = cluster.store()
  await make(store)
  await store.list("block")
  const ended = new AbortController()
  const { requests } = cluster.first
  const reading = (async () => {
    for await (const _ of store.watch("block", ended.signal));
  })()
  await waitFor(() => requests.some(({ path }) => path === "/v3/watch"), "the request for a watch")
  ended.abort()
  await within(reading, "the watch to end")
  expect(new Set(requests.map(({ path }) => path))).toEqual(new Set(["/v3/kv/txn", "/v3/kv/range", "/v3/watch"]))
  expect(requests.filter(({ asksForLeader }) => !asksForLeader)).toEqual([])
})

test("revisions and ids beyond the integers of a number stay what they are", async () => {
  await using cluster = new Cluster()
  const store = cluster.store()
  const first = await make(store)
  const second = await make(store, 2)
  expect((second?.revision ?? 0n) - (first?.revision ?? 0n)).toBe(1n)
  expect(await store.identity()).toEqual({ cluster: "cdf818194e3a8c32", revision: 9_007_199_254_740_995n })
})

test("a version is compared with the value, too: a restored store uses revisions again", async () => {
  await using cluster = new Cluster()
  const store = cluster.store()
  const made = await make(store)
  if (!made) throw new Error("not made")
  const path = "/cni/block/pods/10.64.1.0/26"
  const key = cluster.etcd.keys.get(path)
  if (!key) throw new Error("no key")
  // Another record, at the revision of the first.
  cluster.etcd.keys.set(path, { ...key, value: JSON.stringify(block(1, { nonce: "another" })) })
  expect(await store.replace(made, block(1, { epoch: 2 }))).toBeUndefined()
  expect(await store.remove(made)).toBe(false)
})

test("a record that was written in another form is replaced and removed as it is", async () => {
  await using cluster = new Cluster()
  const store = cluster.store()
  const spaced = (epoch: number) => JSON.stringify(block(1, { epoch }), undefined, 1)
  const path = "/cni/block/pods/10.64.1.0/26"
  cluster.etcd.put(path, spaced(2))
  const [found] = await store.list("block")
  if (!found) throw new Error("not found")
  const key = cluster.etcd.keys.get(path)
  if (!key) throw new Error("no key")
  cluster.etcd.keys.set(path, { ...key, value: spaced(3) }) // of a backup, at the same revision
  expect(await store.replace(found, block(1, { epoch: 4 }))).toBeUndefined()
  cluster.etcd.keys.set(path, key)
  const next = await store.replace(found, block(1, { epoch: 4 }))
  expect(next?.value.epoch).toBe(4)
  cluster.etcd.put(path, spaced(5))
  const [last] = await store.list("block")
  expect(last && (await store.remove(last))).toBe(true)
})

test("a list of many pages is that of one revision", async () => {
  await using cluster = new Cluster()
  const store = cluster.store({}, { pageRecords: 3 })
  for (let at = 0; at < 8; at++) await make(store, at)
  let pages = 0
  cluster.first.odd = (path) => {
    // A record that comes before the second page is made.
    if (path === "/v3/kv/range" && pages++ === 1)
      cluster.etcd.put("/cni/block/pods/10.64.9.0/26", JSON.stringify(block(9)))
    return undefined
  }
  expect((await store.list("block")).map(({ key }) => key)).toEqual([0, 1, 2, 3, 4, 5, 6, 7].map(keyOfBlock))
  expect(pages).toBe(3)
})

test("a list whose revision is compacted between two pages begins anew", async () => {
  await using cluster = new Cluster()
  const store = cluster.store({}, { pageRecords: 3 })
  for (let at = 0; at < 5; at++) await make(store, at)
  let pages = 0
  cluster.first.odd = (path) => {
    if (path === "/v3/kv/range" && pages++ === 1) {
      cluster.etcd.put("/cni/block/pods/10.64.9.0/26", JSON.stringify(block(9)))
      cluster.etcd.compact()
    }
    return undefined
  }
  expect(await store.list("block")).toHaveLength(6)
})

describe("a record of a strange form is an error that names its key:", () => {
  const strange: [string, string, RegExp][] = [
    ["no JSON", "{", /it is not JSON/],
    ["a list", "[]", /expected an object/],
    ["an epoch of 0", JSON.stringify(block(1, { epoch: 0 })), /"epoch" is 0: expected an integer from 1/],
    ["an epoch that is text", JSON.stringify({ ...block(1), epoch: "1" }), /"epoch" is "1"/],
    ["an unknown state", JSON.stringify({ ...block(1), state: "lost" }), /"state" is "lost": expected "owned"/],
    ["no owner", JSON.stringify({ ...block(1), owner: undefined }), /"owner" is absent: expected an object/],
    [
      "an owner of another form",
      JSON.stringify({ ...block(1), owner: { ...block(1).owner, uid: 1 } }),
      /"owner.uid" is 1/,
    ],
    ["host bits in its prefix", JSON.stringify({ ...block(1), prefix: "10.64.1.1/26" }), /"prefix" is "10.64.1.1\/26"/],
    ["another block's", JSON.stringify(block(2)), /it is the record of "pods\/10.64.2.0\/26"/],
    ["a prototype", '{"__proto__": {"pool": "pods"}}', /"pool" is absent/],
  ]
  test.each(strange)("%s", async (_, value, reason) => {
    await using cluster = new Cluster()
    const store = cluster.store()
    cluster.etcd.put("/cni/block/pods/10.64.1.0/26", value)
    for (const call of [
      () => store.find("block", keyOfBlock(1)),
      () => store.list("block"),
      () => firstOf(store, "block"),
    ]) {
      const error = await errorOf(call())
      expect(error.message).toContain('Cannot read the record "block/pods/10.64.1.0/26" of the store: ')
      expect(error.message).toMatch(reason)
      expect(error.outcome).toBe("refused")
    }
  })
})

async function firstOf<K extends Kind>(store: Store, kind: K): Promise<WatchEvent<K>> {
  const ended = new AbortController()
  try {
    for await (const event of store.watch(kind, ended.signal)) return event
    throw new Error("the watch has no event")
  } finally {
    ended.abort()
  }
}

describe("a change has the outcome", () => {
  const page = "<html><body>Welcome to the proxy</body></html>"
  const etcd = (status: number, message: string) => () =>
    Response.json({ error: message, message, code: 8 }, { status })
  const cases: [string, StoreError["outcome"], () => Response | Promise<Response>][] = [
    ["torn JSON", "unknown", () => new Response('{"header":{"cluster_id":"1","revision":"2"},"succ')],
    ["the page of a proxy", "unknown", () => new Response(page, { headers: { "content-type": "text/html" } })],
    ["no answer of a txn", "unknown", () => Response.json({ succeeded: true })],
    ["a revision that is no number", "unknown", () => Response.json({ header: { cluster_id: "1", revision: "many" } })],
    ["503", "unknown", etcd(503, "etcdserver: request timed out")],
    ["500", "unknown", () => new Response(page, { status: 500 })],
    ["a redirection", "unknown", () => Response.redirect("http://127.0.0.1:1/", 307)],
    ["a call that ran out of time (408)", "unknown", etcd(408, "context deadline exceeded")],
    ["no space left (429)", "unknown", etcd(429, "etcdserver: mvcc: database space exceeded")],
    ["no answer in time", "unknown", () => new Promise<Response>(() => {})],
    ["no permission", "refused", etcd(403, "etcdserver: permission denied")],
    ["a proxy that forbids it", "refused", () => new Response(page, { status: 403 })],
    ["a record that is too large", "refused", etcd(400, "etcdserver: request is too large")],
    ["no leader", "refused", etcd(503, "etcdserver: no leader")],
  ]
  test.each(cases)("of %s: %s", async (_, outcome, answer) => {
    await using cluster = new Cluster()
    cluster.first.odd = only("/v3/kv/txn", answer)
    const store = cluster.store({}, { requestMs: 200 })
    const error = await errorOf(make(store))
    expect(error.outcome).toBe(outcome)
    expect(error.message).toStartWith('Cannot create the record "block/pods/10.64.1.0/26" in etcd: ')
    expect(cluster.first.count("/v3/kv/txn")).toBe(1)
  })

  test("of a member that is not there: refused; and the message names it", async () => {
    const gone = new FakeGateway(new FakeEtcd())
    await gone[Symbol.asyncDispose]()
    await using cluster = new Cluster(0)
    const error = await errorOf(make(cluster.store({ endpoints: [gone.endpoint] })))
    expect([error.outcome, error.message]).toEqual([
      "refused",
      `Cannot create the record "block/pods/10.64.1.0/26" in etcd: ${gone.endpoint}: the connection was refused`,
    ])
  })

  test("of a connection that ends after the request: unknown, and it is sent once, also on a kept connection", async () => {
    const requests: string[] = []
    using server = Bun.listen({
      hostname: "127.0.0.1",
      port: 0,
      socket: {
        data(socket, data) {
          requests.push(data.toString())
          const body = JSON.stringify({ header: { cluster_id: "1", revision: "5" }, succeeded: true })
          if (requests.length === 1) socket.write(`HTTP/1.1 200 OK\r\ncontent-length: ${body.length}\r\n\r\n${body}`)
          else socket.end()
        },
      },
    })
    await using cluster = new Cluster(0)
    const store = cluster.store({ endpoints: [`http://127.0.0.1:${server.port}`] })
    expect(await make(store)).toBeDefined()
    expect((await errorOf(make(store, 2))).outcome).toBe("unknown")
    expect(requests).toHaveLength(2)
  })
})

describe("of several members", () => {
  test("the next is asked where one is not there, and stays the first to ask", async () => {
    await using cluster = new Cluster(2)
    const [first, second] = cluster.members
    const store = cluster.store()
    await first?.[Symbol.asyncDispose]()
    expect(await make(store)).toBeDefined()
    await store.list("block")
    expect(second?.requests).toHaveLength(2)
  })

  test("the next is read from where one answers nothing in time, or something strange", async () => {
    await using cluster = new Cluster(3)
    const [first, second, third] = cluster.members
    const store = cluster.store({}, { requestMs: 200 })
    if (first) first.odd = () => new Promise<Response>(() => {})
    if (second) second.odd = () => new Response("<html>")
    expect(await store.list("block")).toEqual([])
    expect([first, second, third].map((member) => member?.requests.length)).toEqual([1, 1, 1])
  })

  test("no other makes a change that one may have made; the next change goes to the next", async () => {
    await using cluster = new Cluster(2)
    const [first, second] = cluster.members
    const store = cluster.store()
    if (first) first.odd = () => new Response("", { status: 502 })
    expect((await errorOf(make(store))).outcome).toBe("unknown")
    expect(second?.requests).toHaveLength(0)
    expect(await make(store)).toBeDefined()
  })

  test("a read that none answers names each of them", async () => {
    await using cluster = new Cluster(2)
    const [first, second] = cluster.members
    if (first) first.odd = () => new Response("", { status: 503 })
    await second?.[Symbol.asyncDispose]()
    const error = await errorOf(cluster.store().list("block"))
    expect(error.message).toBe(
      `Cannot list the records "block" of etcd: ${first?.endpoint}: it answered with HTTP status 503; ${second?.endpoint}: the connection was refused`,
    )
    expect(error.outcome).toBe("refused")
  })
})
