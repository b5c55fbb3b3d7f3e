import { expect, test } from "bun:test"
import { chmodSync, mkdirSync, mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { waitFor, within } from "../../../integration/lab/mod.ts"
import { runAgent } from "../../run.ts"
import { askAgent } from "../../server/serve.ts"
import { FakeApiServer } from "../../testing/fake-api-server.ts"
import { ask, tokenOf } from "../../testing/kubernetes-stores.ts"

/** The agent of "node-1" in this process, with a kubeconfig of the fake API server, and its pool's file as it is now. */
async function start(fake: FakeApiServer, store: object) {
  const directory = mkdtempSync(join(tmpdir(), "cni-agent-"))
  chmodSync(directory, 0o755)
  const paths = {
    poolDir: join(directory, "pools"),
    dataDir: join(directory, "networks"),
    socket: join(directory, "run/agent.sock"),
  }
  mkdirSync(paths.dataDir)
  const kubeconfig = join(directory, "kubeconfig")
  const user = { token: tokenOf("agent") }
  const config = {
    "current-context": "test",
    contexts: [{ name: "test", context: { cluster: "test", user: "agent" } }],
    clusters: [{ name: "test", cluster: { server: fake.url } }],
    users: [{ name: "agent", user }],
  }
  await Bun.write(kubeconfig, JSON.stringify(config))
  const file = join(directory, "agent.json")
  await Bun.write(
    file,
    JSON.stringify({ ...paths, store: { type: "kubernetes", kubeconfig, ...store }, node: "node-1", http: "" }),
  )
  const ended = new AbortController()
  const running = runAgent(file, {
    env: {},
    write: () => {},
    end: ended.signal,
    reload: new EventTarget(),
    version: "test",
    usage: () => ({ residentBytes: 0, cpuS: 0 }),
  })
  return {
    running,
    socket: paths.socket,
    async poolFile() {
      const path = join(paths.poolDir, "pods.json")
      return (await Bun.file(path).exists()) ? await Bun.file(path).json() : undefined
    },
    async [Symbol.asyncDispose]() {
      ended.abort()
      await within(running, "the agent to end")
      rmSync(directory, { recursive: true })
    },
  }
}

const node = (spec: object) => ({ apiVersion: "v1", kind: "Node", metadata: { name: "node-1" }, spec })

test("the agent copies the pod CIDRs of its node into the file of a pool, and needs no custom resources for that", async () => {
  await using fake = await FakeApiServer.start({ isBare: true })
  const { body: made } = await ask(fake, "POST", "/api/v1/nodes", { body: node({ podCIDRs: ["10.244.1.0/24"] }) })
  await using agent = await start(fake, { source: "podCIDRs", network: "pods" })
  const first = await waitFor(() => agent.poolFile(), "the file of the pool")
  expect(first).toMatchObject({ pool: "pods", node: { name: "node-1", uid: made.metadata.uid } })
  expect(first.sets).toMatchObject([{ prefix: "10.244.1.0/24", blockLength: 24, blocks: ["10.244.1.0/24"] }])
  expect((await askAgent(agent.socket)).store.fault).toBeUndefined()
  const podCIDRs = ["10.244.1.0/24", "fd00:244:1::/64"]
  await ask(fake, "PUT", "/api/v1/nodes/node-1", { body: { ...made, spec: { podCIDRs } } })
  const second = await waitFor(async () => {
    const file = await agent.poolFile()
    return file.sets.length === 2 && file
  }, "the file with both prefixes")
  expect(second.sets.map(({ prefix }: { prefix: string }) => prefix)).toEqual(podCIDRs)
  expect(fake.requests.filter((line) => !line.startsWith("GET /api/v1/nodes") && !/^P\w+ /.test(line))).toEqual([])
}, 900_000)

test("an agent that starts before its Node is there waits for it", async () => {
  await using fake = await FakeApiServer.start({ isBare: true })
  await using agent = await start(fake, { source: "podCIDRs", network: "pods" })
  await waitFor(
    () => fake.requests.some((line) => line.startsWith("GET /api/v1/nodes")),
    "the agent to ask for its Node",
  )
  await ask(fake, "POST", "/api/v1/nodes", { body: node({ podCIDRs: ["10.244.1.0/24"] }) })
  const file = await waitFor(() => agent.poolFile(), "the file of the pool")
  expect(file).toMatchObject({ pool: "pods", node: { name: "node-1" } })
}, 900_000)

test("the agent registers a pool that a user wrote, claims a block of it and writes the file of the pool", async () => {
  await using fake = await FakeApiServer.start()
  await ask(fake, "POST", "/api/v1/nodes", { body: node({}) })
  await using agent = await start(fake, {})
  const spec = { prefixes: [{ prefix: "10.64.0.0/16", blockLength: 26 }] }
  const pool = { apiVersion: "cni-agent.internal/v1", kind: "Pool", metadata: { name: "pods" }, spec }
  await ask(fake, "POST", "/apis/cni-agent.internal/v1/pools", { body: pool, account: "operator" })
  const file = await waitFor(async () => {
    const now = await agent.poolFile()
    return now?.sets[0]?.blocks.length > 0 && now
  }, "a block in the file of the pool")
  const { body } = await ask(fake, "GET", "/apis/cni-agent.internal/v1/blocks")
  expect(body.items.map((block: { spec: { prefix: string } }) => block.spec.prefix)).toEqual(file.sets[0].blocks)
  expect(JSON.stringify(await askAgent(agent.socket))).toContain("10.64.0.0/16")
}, 900_000)
