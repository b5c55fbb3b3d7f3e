import { describe, expect, test } from "bun:test"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { waitFor, within } from "../../../integration/lab/mod.ts"
import { heldAddresses } from "../../migrate/whereabouts.ts"
import { putPool } from "../../pools.ts"
import type { Block } from "../../records.ts"
import { StoreError } from "../../store.ts"
import { FakeApiServer, type FakeOptions } from "../../testing/fake-api-server.ts"
import { ask, blockObject, connectionTo, setNodes } from "../../testing/kubernetes-stores.ts"
import { secretInFile } from "./connection.ts"
import { KubernetesStore } from "./store.ts"

/** A fake API server, and the agent's store in it. */
async function start(options?: FakeOptions) {
  const stack = new AsyncDisposableStack()
  const fake = stack.use(await FakeApiServer.start(options))
  const store = stack.use(new KubernetesStore(connectionTo(fake, "agent")))
  return { fake, store, [Symbol.asyncDispose]: () => stack.disposeAsync() }
}

const owner = { name: "node-1", uid: "uid-1", machineId: "machine-1" }
const block: Block = { pool: "pods", prefix: "10.64.3.0/26", owner, nonce: "n", epoch: 1, state: "owned" }
const key = "pods/10.64.3.0/26"
const blocks = "/apis/cni-agent.internal/v1/blocks"

async function errorOf(call: Promise<unknown>): Promise<StoreError> {
  try {
    await call
  } catch (error) {
    if (error instanceof StoreError) return error
    throw error
  }
  throw new Error("The call succeeded")
}

/** How many watches of blocks were opened: each list is one request, and each watch another one. */
const watches = ({ requests }: FakeApiServer) => requests.filter((line) => line === `GET ${blocks}`).length - 1

/** Waits until one watch is open, at the server's side, too. */
const isWatched = ({ fake }: { fake: FakeApiServer }) => waitFor(() => fake.watching === 1, "one open watch")

/** Waits until a watch has told so much. */
const hasSeen = (seen: readonly unknown[], count: number) =>
  waitFor(() => seen.length >= count, `${count} events of the watch`)

/** Aborts a loop and waits for its end. */
async function end(ended: AbortController, ...loops: readonly Promise<void>[]): Promise<void> {
  ended.abort()
  await within(Promise.all(loops), "the loop to end")
}

test("the addresses of whereabouts are read by the operator's account, in all namespaces, and not by the agent's", async () => {
  await using it = await start()
  const place = "/apis/whereabouts.cni.cncf.io/v1alpha1/namespaces"
  const put = (namespace: string, name: string, range: string, offset: string, podref: string) =>
    ask(it.fake, "POST", `${place}/${namespace}/ippools`, {
      body: {
        apiVersion: "whereabouts.cni.cncf.io/v1alpha1",
        kind: "IPPool",
        metadata: { name, namespace },
        spec: { range, allocations: { [offset]: { id: "c", podref } } },
      },
    })
  expect((await put("kube-system", "192.0.2.0-24", "192.0.2.0/24", "7", "db/one")).status).toBe(201)
  expect((await put("multus", "lan-198.51.100.0-24", "198.51.100.0/24", "300", "db/two")).status).toBe(201)
  await using operator = new KubernetesStore(connectionTo(it.fake, "operator"))
  expect(heldAddresses(await operator.ipPools())).toEqual([
    { address: "192.0.2.7", pod: "db/one" },
    { address: "198.51.101.44", pod: "db/two" },
  ])
  expect((await errorOf(it.store.ipPools())).message).toMatch(/^Cannot list objects of kind IPPool: HTTP 403: /)
})

describe("a request", () => {
  test("that the server has no time for is sent again when it says", async () => {
    await using it = await start()
    it.fake.answerNext(429, { "retry-after": "0" })
    it.fake.answerNext(429, { "retry-after": "0" })
    expect((await it.store.create("block", key, block))?.key).toBe(key)
    expect(it.fake.requests.filter((line) => line === `POST ${blocks}`)).toHaveLength(3)
  })

  test("that fails in the server may have been carried out; one that it refuses was not", async () => {
    await using it = await start()
    for (const status of [500, 503, 504]) {
      it.fake.answerNext(status)
      expect(await errorOf(it.store.create("block", key, block))).toMatchObject({ outcome: "unknown" })
    }
    it.fake.answerNext(400)
    expect(await errorOf(it.store.create("block", key, block))).toMatchObject({ outcome: "refused" })
    it.fake.answerNext(500)
    expect(await errorOf(it.store.find("block", key))).toMatchObject({ outcome: "refused" })
  })

  test("to a server that does not listen is refused, and the error names the request and the server", async () => {
    const fake = await FakeApiServer.start()
    await fake[Symbol.asyncDispose]()
    await using store = new KubernetesStore(connectionTo(fake, "agent"))
    const error = await errorOf(store.create("block", key, block))
    expect(error.outcome).toBe("refused")
    expect(error.message).toStartWith(`Cannot create block "${key}": ${fake.url}: `)
  })

  test("is sent once, also on a connection that breaks before the answer", async () => {
    await using it = await start()
    const stored = await it.store.create("block", key, block)
    for (let at = 0; at < 5; at++) await it.store.find("block", key) // connections to use again
    it.fake.loseNextAnswer()
    const before = it.fake.requests.length
    if (stored) expect((await errorOf(it.store.replace(stored, { ...block, epoch: 2 }))).outcome).toBe("unknown")
    expect(it.fake.requests.slice(before)).toEqual([`PUT ${blocks}/pods-10.64.3.0-26`])
  })

  test("without a right says what the role lacks", async () => {
    await using it = await start()
    const fixed = { pool: "pods", namespace: "db", pod: "a", ifName: "eth0", addresses: ["10.64.9.9"], nonce: "n" }
    const error = await errorOf(it.store.create("fixed", "db/a/eth0", fixed))
    expect([error.outcome, error.message]).toEqual([
      "refused",
      expect.stringContaining("HTTP 403: fixedaddresses is forbidden"),
    ])
  })

  test("carries the token that is in its file now", async () => {
    await using it = await start()
    const directory = mkdtempSync(join(tmpdir(), "cni-token-"))
    try {
      const token = join(directory, "token")
      writeFileSync(token, "agent-token\n")
      await using store = new KubernetesStore({ server: it.fake.url, token: secretInFile(token) })
      expect(await store.list("block")).toEqual([])
      it.fake.tokens.set("the-next-token", it.fake.tokens.get("agent-token") ?? [])
      it.fake.tokens.delete("agent-token")
      expect((await errorOf(store.list("block"))).message).toContain("HTTP 401")
      writeFileSync(token, "the-next-token\n")
      expect(await store.list("block")).toEqual([])
    } finally {
      rmSync(directory, { recursive: true })
    }
  })

  test("before the custom resources are there is an error, and no empty list", async () => {
    await using it = await start({ isBare: true })
    expect((await errorOf(it.store.list("block"))).message).toContain("HTTP 404")
    expect((await errorOf(it.store.find("block", key))).outcome).toBe("refused")
    expect((await errorOf(it.store.identity())).outcome).toBe("refused")
    await it.fake.addCustomResources()
    expect(await it.store.list("block")).toEqual([])
  })
})

test("an object that another program named is no record: no compare-and-swap of agents sees it", async () => {
  await using it = await start()
  await ask(it.fake, "POST", blocks, { body: blockObject("10.64.3.0/26", {}, { name: "mine" }) })
  await ask(it.fake, "POST", blocks, { body: blockObject("10.64.4.0/26") })
  expect((await it.store.list("block")).map(({ key }) => key)).toEqual(["pods/10.64.4.0/26"])
  expect(await it.store.create("block", key, block)).toBeDefined()
})

test("an object that cannot be read is left out, and the others are not", async () => {
  await using it = await start()
  await ask(it.fake, "POST", blocks, { body: blockObject("10.64.3.1/26") })
  await ask(it.fake, "POST", blocks, { body: blockObject("10.64.4.0/26") })
  expect((await it.store.list("block")).map(({ key }) => key)).toEqual(["pods/10.64.4.0/26"])
  expect((await errorOf(it.store.find("block", "pods/10.64.3.1/26"))).message).toContain("has no such record")
})

test("a fixed address that an operator writes needs no nonce, and the agent sets its holder", async () => {
  await using it = await start()
  const spec = { pool: "pods", namespace: "db", pod: "mysql-0", ifName: "eth0", addresses: ["10.64.255.7"] }
  const metadata = { name: "db.mysql-0.eth0" }
  const body = { apiVersion: "cni-agent.internal/v1", kind: "FixedAddress", metadata, spec }
  await ask(it.fake, "POST", "/apis/cni-agent.internal/v1/fixedaddresses", { body, account: "operator" })
  const [found] = await it.store.list("fixed")
  expect(found).toMatchObject({ key: "db/mysql-0/eth0", value: { ...spec, nonce: "by hand" } })
  if (found) expect(await it.store.replace(found, { ...found.value, holder: owner })).toBeDefined()
})

describe("a watch", () => {
  test("goes on where its connection broke, and does not begin anew", async () => {
    await using it = await start()
    const seen: string[] = []
    const ended = new AbortController()
    const reading = (async () => {
      for await (const event of it.store.watch("block", ended.signal)) seen.push(event.type)
    })()
    await isWatched(it)
    it.fake.cutWatches()
    await it.store.create("block", key, block)
    await hasSeen(seen, 2)
    await end(ended, reading)
    expect(seen).toEqual(["all", "put"])
  })

  test("goes on from a bookmark, where the history of other kinds up to there was forgotten", async () => {
    await using it = await start()
    const seen: string[] = []
    const ended = new AbortController()
    const reading = (async () => {
      for await (const event of it.store.watch("block", ended.signal)) seen.push(event.type)
    })()
    const isOpen = (times: number) =>
      waitFor(() => it.fake.watching === 1 && watches(it.fake) >= times, `watch ${times} to be open`)
    await isOpen(1)
    await setNodes(it.fake, ["node-1", "node-2"])
    it.fake.cutWatches()
    await isOpen(2)
    it.fake.forget()
    it.fake.endWatches() // it has read how far the server had come
    await isOpen(3)
    await it.store.create("block", key, block)
    await hasSeen(seen, 2)
    await end(ended, reading)
    expect(seen).toEqual(["all", "put"])
  })

  test("that finds its history forgotten begins anew by itself", async () => {
    await using it = await start()
    const seen: string[] = []
    const ended = new AbortController()
    const reading = (async () => {
      for await (const event of it.store.watch("block", ended.signal)) seen.push(event.type)
    })()
    await isWatched(it)
    await it.fake.compact(async () => void (await it.store.create("block", key, block)))
    await hasSeen(seen, 2)
    await end(ended, reading)
    expect(seen).toEqual(["all", "all"])
  })

  test("throws when the server cannot be reached again", async () => {
    await using it = await start()
    const reading = (async () => {
      for await (const _ of it.store.watch("block", new AbortController().signal));
    })()
    await isWatched(it)
    await it.fake[Symbol.asyncDispose]()
    expect((await errorOf(within(reading, "the watch to throw"))).outcome).toBe("refused")
  })

  test("waits for a server that asks for patience", async () => {
    await using it = await start()
    await it.store.create("block", key, block)
    it.fake.answerNext(429, { "retry-after": "0" })
    for await (const event of it.store.watch("block", new AbortController().signal)) {
      expect(event).toMatchObject({ type: "all", records: [{ key }] })
      break
    }
  })
})

test("the members are read without the status of the nodes, which is a hundred times as long", async () => {
  await using it = await start()
  const nodes = await setNodes(it.fake, ["node-1", "node-2"])
  expect(await it.store.members()).toEqual(nodes)
  expect(it.fake.accepted.at(-1)).toContain("as=PartialObjectMetadataList")
})

test("the cluster is known by the UID of its namespace kube-system", async () => {
  await using one = await start()
  await using two = await start()
  const { body } = await ask(one.fake, "GET", "/api/v1/namespaces/kube-system")
  expect((await one.store.identity()).cluster).toBe(body.metadata.uid)
  expect((await two.store.identity()).cluster).not.toBe(body.metadata.uid)
})

test("an object is replaced and removed by its UID, too: a server that was restored uses versions again", async () => {
  await using it = await start()
  const stored = (await it.store.create("block", key, block)) ?? expect.unreachable()
  const [uid = "", version = ""] = stored.version.split(" ")
  const former = { ...stored, version: `${crypto.randomUUID()} ${version}` }
  expect(uid).not.toBe("")
  expect(await it.store.replace(former, { ...block, epoch: 2 })).toBeUndefined()
  expect(await it.store.remove(former)).toBe(false)
  expect(await it.store.find("block", key)).toEqual(stored)
})

test("a server that lists nothing has no members: the caller must not believe that all nodes are gone", async () => {
  await using it = await start()
  await setNodes(it.fake, ["node-1", "node-2"])
  it.fake.emptyLists = true
  expect(await it.store.members()).toEqual([])
})

test("bound pods are those of the node that have not ended", async () => {
  await using it = await start()
  const pod = (name: string, nodeName: string, phase = "Running") =>
    ask(it.fake, "POST", "/api/v1/namespaces/db/pods", {
      body: { apiVersion: "v1", kind: "Pod", metadata: { name }, spec: { nodeName }, status: { phase } },
    })
  await pod("mysql-0", "node-1")
  await pod("mysql-1", "node-2")
  await pod("job", "node-1", "Succeeded")
  const ended = new AbortController()
  const seen: string[] = []
  const reading = (async () => {
    for await (const pods of it.store.boundPods("node-1", ended.signal)) seen.push(pods.map(({ pod }) => pod).join())
  })()
  await isWatched(it)
  await pod("mysql-2", "node-1")
  await hasSeen(seen, 2)
  const path = "/api/v1/namespaces/db/pods/mysql-0"
  const { body } = await ask(it.fake, "GET", path)
  await ask(it.fake, "PUT", path, { body: { ...body, status: { phase: "Failed" } } })
  await hasSeen(seen, 3)
  await end(ended, reading)
  expect(seen).toEqual(["mysql-0", "mysql-0,mysql-2", "mysql-2"])
})

test("podCIDRs are told once for each change of them, and not for other changes of the node", async () => {
  await using it = await start()
  const ended = new AbortController()
  const seen: (readonly string[])[] = []
  const reading = (async () => {
    for await (const state of it.store.podCidrs("node-1", ended.signal)) seen.push(state)
  })()
  await isWatched(it)
  const node = { apiVersion: "v1", kind: "Node", metadata: { name: "node-1" }, spec: { podCIDRs: ["10.244.1.0/24"] } }
  const { body: made } = await ask(it.fake, "POST", "/api/v1/nodes", { body: node })
  const { body: beat } = await ask(it.fake, "PUT", "/api/v1/nodes/node-1", { body: { ...made, status: { beat: 1 } } })
  const podCIDRs = ["10.244.1.0/24", "fd00:244:1::/64"]
  await ask(it.fake, "PUT", "/api/v1/nodes/node-1", { body: { ...beat, spec: { podCIDRs } } })
  await hasSeen(seen, 2)
  await end(ended, reading)
  expect(seen).toEqual([["10.244.1.0/24"], podCIDRs])
})

describe("Pool objects", () => {
  const pools = "/apis/cni-agent.internal/v1/pools"
  const poolObject = (name: string, prefix: string) => {
    return { apiVersion: "cni-agent.internal/v1", kind: "Pool", metadata: { name }, spec: { prefixes: [{ prefix }] } }
  }

  test("are registered with defaults by one of several agents, and one that overlaps is refused with the reason", async () => {
    await using it = await start()
    await using other = new KubernetesStore(connectionTo(it.fake, "agent"))
    const ended = new AbortController()
    const running = [it.store, other].map((store) => store.registerPools((pool) => putPool(store, pool), ended.signal))
    await ask(it.fake, "POST", pools, { body: poolObject("pods", "10.64.0.0/16"), account: "operator" })
    const statusOf = async (name: string) => (await ask(it.fake, "GET", `${pools}/${name}`)).body.status
    await waitFor(async () => (await statusOf("pods"))?.state === "Registered", "the pool to be registered")
    await ask(it.fake, "POST", pools, { body: poolObject("more", "10.64.128.0/17"), account: "operator" })
    await waitFor(() => statusOf("more"), "the other pool to be looked at")
    await end(ended, ...running)
    expect(await statusOf("pods")).toEqual({ state: "Registered", reason: "", observedGeneration: 1 })
    expect(await statusOf("more")).toMatchObject({ state: "Refused", reason: expect.stringContaining("overlaps") })
    const registry = await it.store.find("registry", "pools")
    expect(registry?.value.pools).toEqual({
      pods: {
        name: "pods",
        prefixes: [{ prefix: "10.64.0.0/16", blockLength: 26, reserved: [] }],
        routes: [],
        network: "pods",
        quarantineS: 86_400,
        routing: "none",
      },
    })
  }, 900_000)

  test("that were written before the agent ran are registered, too", async () => {
    await using it = await start()
    await ask(it.fake, "POST", pools, { body: poolObject("pods6", "fd00:64::/48") })
    const ended = new AbortController()
    const running = it.store.registerPools((pool) => putPool(it.store, pool), ended.signal)
    await waitFor(() => it.store.find("registry", "pools"), "the pool to be registered")
    await end(ended, running)
    expect((await it.store.find("registry", "pools"))?.value.pools.pods6?.prefixes[0]?.blockLength).toBe(122)
  }, 900_000)
})
