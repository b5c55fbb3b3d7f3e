import { describe, expect, test } from "bun:test"
import { waitFor, within } from "../../../integration/lab/mod.ts"
import type { Kind } from "../../records.ts"
import type { Store, WatchEvent } from "../../store.ts"
import { linesOf } from "../lines.ts"
import { block, Cluster, errorOf, keyOfBlock, make } from "./cluster.fixture.ts"
import type { Odd } from "./fake-gateway.fixture.ts"

/** A busy machine may hold this process up for a second, with the fake members in it. */
const limits = { requestMs: 2_000, idleMs: 50, silenceMs: 60_000 }

/** A watch of the blocks whose events are taken one by one. */
class Watch implements AsyncDisposable {
  readonly #ended = new AbortController()
  readonly #events: AsyncIterator<WatchEvent<"block">>

  constructor(store: Store) {
    this.#events = store.watch("block", this.#ended.signal)[Symbol.asyncIterator]()
  }

  /** The next event in a word: "all 2", "put 10.64.1.0/26 1" with its epoch, "removed pods/10.64.1.0/26", "end". */
  async next(): Promise<string> {
    const { done, value } = await within(this.#events.next(), "an event of the watch")
    if (done) return "end"
    if (value.type === "all") return `all ${value.records.length}`
    if (value.type === "removed") return `removed ${value.key}`
    return `put ${value.record.value.prefix} ${value.record.value.epoch}`
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#ended.abort()
    await this.#events.return?.()
  }
}

const watching: Odd = (path) => (path === "/v3/watch" ? new Response("", { status: 503 }) : undefined)

describe("a watch goes on at the next member, where it has been,", () => {
  const failures: [string, (cluster: Cluster) => void | Promise<void>][] = [
    ["when its stream is cut in the midst of a line", ({ etcd }) => etcd.cut()],
    ["when its member ends", ({ first }) => first[Symbol.asyncDispose]()],
    ["after a line that is not JSON", ({ etcd }) => etcd.streams.forEach((stream) => void stream.send("<html>\n"))],
    [
      "after an error in the stream",
      ({ etcd }) =>
        etcd.streams.forEach(
          (stream) => void stream.send('{"error":{"grpc_code":14,"message":"etcdserver: no leader"}}\n'),
        ),
    ],
    [
      "when its member answers no request any more",
      ({ first, etcd }) => {
        first.odd = () => new Promise<Response>(() => {})
        etcd.streams.clear()
      },
    ],
  ]
  test.each(failures)("%s", async (_, fail) => {
    await using cluster = new Cluster(2)
    const store = cluster.store({}, limits)
    await make(store, 1)
    await using watch = new Watch(store)
    expect(await watch.next()).toBe("all 1")
    const second = watch.next()
    cluster.etcd.put("/cni/block/pods/10.64.2.0/26", JSON.stringify(block(2)))
    expect(await second).toBe("put 10.64.2.0/26 1")
    const third = watch.next()
    await fail(cluster)
    cluster.etcd.put("/cni/block/pods/10.64.3.0/26", JSON.stringify(block(3)))
    expect(await third).toBe("put 10.64.3.0/26 1")
    const resumed = cluster.members[1]?.requests.filter(({ path }) => path === "/v3/watch")
    expect(resumed).toHaveLength(1)
    expect(cluster.members[1]?.requests.some(({ body }) => "limit" in body && body.limit === "500")).toBe(false)
  })
})

test("a watch that finds its revision compacted tells all records again", async () => {
  await using cluster = new Cluster(2)
  const store = cluster.store({}, limits)
  await make(store, 1)
  await using watch = new Watch(store)
  expect(await watch.next()).toBe("all 1")
  const next = watch.next()
  // No member takes a watch until the history is gone.
  const { promise: held, resolve: release } = Promise.withResolvers<undefined>()
  for (const member of cluster.members) member.odd = (path) => (path === "/v3/watch" ? held : undefined)
  cluster.etcd.cut()
  cluster.etcd.remove("/cni/block/pods/10.64.1.0/26")
  cluster.etcd.put("/cni/block/pods/10.64.2.0/26", JSON.stringify(block(2)))
  cluster.etcd.put("/cni/block/pods/10.64.3.0/26", JSON.stringify(block(3)))
  cluster.etcd.compact()
  release(undefined)
  expect(await next).toBe("all 2")
})

test.each([
  ["a smaller revision", { revision: 9_007_199_254_740_000n }],
  ["another cluster's id", { cluster: "77" }],
])("a watch that finds another history, by %s, tells all records again", async (_, restored) => {
  await using cluster = new Cluster(2)
  const store = cluster.store({}, limits)
  await make(store, 1)
  await using watch = new Watch(store)
  expect(await watch.next()).toBe("all 1")
  const second = watch.next()
  cluster.etcd.put("/cni/block/pods/10.64.2.0/26", JSON.stringify(block(2)))
  expect(await second).toBe("put 10.64.2.0/26 1")
  const third = watch.next()
  cluster.etcd.keys.clear()
  Object.assign(cluster.etcd, restored)
  cluster.etcd.cut()
  expect(await third).toBe("all 0")
})

test("a member that lags behind the list is followed", async () => {
  await using cluster = new Cluster(1)
  const store = cluster.store({}, limits)
  await make(store, 1)
  // The member confirms the watch with the revision that it has reached.
  const { etcd } = cluster
  const header = etcd.header.bind(etcd)
  cluster.first.odd = (path) => {
    if (path === "/v3/watch") etcd.header = (revision = etcd.revision - 5n) => header(revision)
    return undefined
  }
  await using watch = new Watch(store)
  expect(await watch.next()).toBe("all 1")
  const next = watch.next()
  etcd.put("/cni/block/pods/10.64.2.0/26", JSON.stringify(block(2)))
  expect(await next).toBe("put 10.64.2.0/26 1")
})

test("lines that come byte by byte are read whole; one that the end has cut is left out", async () => {
  const bytes = Buffer.from('{"node":"knoten-ü"}\n\n{"at":2}\n{"cut')
  const pieces = new ReadableStream<Uint8Array>({
    start(controller) {
      for (const byte of bytes) controller.enqueue(Uint8Array.of(byte))
      controller.close()
    },
  })
  const lines: string[] = []
  for await (const line of linesOf(pieces)) lines.push(line)
  expect(lines).toEqual(['{"node":"knoten-ü"}', '{"at":2}'])
})

test("a watch is an error when no member takes it, and says why", async () => {
  await using cluster = new Cluster(2)
  for (const member of cluster.members) member.odd = watching
  await using watch = new Watch(cluster.store({}, limits))
  expect(await watch.next()).toBe("all 0")
  const error = await errorOf(watch.next())
  expect(error.message).toStartWith('Cannot watch the records "block" of etcd: ')
  expect(cluster.members.map((member) => member.count("/v3/watch"))).toEqual([1, 1])
})

test("a watch that may not read is an error at once", async () => {
  await using cluster = new Cluster(2)
  for (const member of cluster.members)
    member.odd = (path) =>
      path === "/v3/watch" ? Response.json({ message: "etcdserver: permission denied" }, { status: 403 }) : undefined
  await using watch = new Watch(cluster.store({}, limits))
  expect(await watch.next()).toBe("all 0")
  expect((await errorOf(watch.next())).message).toContain("permission denied")
  expect(cluster.first.count("/v3/watch")).toBe(1)
})

test("a silent watch asks its member for a sign of life, and stays while it lives; after long silence it begins elsewhere", async () => {
  await using cluster = new Cluster(2)
  const store = cluster.store({}, { ...limits, silenceMs: 2_000 })
  await using watch = new Watch(store)
  expect(await watch.next()).toBe("all 0")
  const next = watch.next()
  const [first, second] = cluster.members
  await waitFor(() => (second?.count("/v3/watch") ?? 0) > 0, "the watch to begin elsewhere")
  const signs = first?.requests.filter(({ body }) => body.serializable === true) ?? []
  expect(signs.length).toBeGreaterThan(1)
  expect(first?.count("/v3/watch")).toBe(1)
  cluster.etcd.put("/cni/block/pods/10.64.1.0/26", JSON.stringify(block(1)))
  expect(await next).toBe("put 10.64.1.0/26 1")
})

test("silent watches of one member share its signs of life", async () => {
  await using cluster = new Cluster(1)
  const signs: number[] = []
  cluster.first.odd = (_, body) => {
    if ("serializable" in body) signs.push(performance.now())
    return undefined
  }
  const store = cluster.store({}, { ...limits, idleMs: 400 })
  const ended = new AbortController()
  const follow = async (kind: Kind) => {
    for await (const { type } of store.watch(kind, ended.signal)) expect(type).toBe("all")
  }
  const watches = Promise.all((["registry", "block", "node", "fixed", "want"] as const).map(follow))
  await waitFor(() => signs.length >= 3, "three signs of life")
  const [first = 0, , third = 0] = signs
  expect(third - first).toBeGreaterThan(300)
  ended.abort()
  await within(watches, "the watches to end")
})

test("a store that is closed ends its watches and its requests", async () => {
  await using cluster = new Cluster(1)
  const store = cluster.store({}, { ...limits, requestMs: 60_000 })
  await using watch = new Watch(store)
  expect(await watch.next()).toBe("all 0")
  const next = errorOf(watch.next())
  cluster.first.odd = () => new Promise<Response>(() => {})
  const made = errorOf(store.find("block", keyOfBlock(1)))
  const isOfBlock = ({ body }: { body: object }) => "key" in body && body.key === btoa(`/cni/block/${keyOfBlock(1)}`)
  await waitFor(() => cluster.first.requests.some(isOfBlock), "the request for the block")
  await store[Symbol.asyncDispose]()
  expect((await next).message).toContain("closed")
  expect((await made).message).toContain("closed")
})
