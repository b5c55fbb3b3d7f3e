import { expect, test } from "bun:test"
import { type Clock, Engine, KubernetesStore, type LogEvent, type Owner, putPool } from "../../agent/mod.ts"
import { ask, connectionTo, setNodes } from "../../agent/testing/kubernetes-stores.ts"
import { TestNode } from "../../agent/testing/world.ts"
import { patient, waitFor } from "../lab/mod.ts"
import { RealApiServer } from "./testing/api-server.ts"

const clock: Clock = {
  bootMs: () => performance.now(),
  bootId: "this boot",
  async sleep(ms, signal) {
    if (signal.aborted) return
    const { promise, resolve } = Promise.withResolvers<void>()
    const timer = setTimeout(resolve, ms)
    signal.addEventListener("abort", () => resolve(), { once: true })
    await promise
    clearTimeout(timer)
  },
}

/** The agent of one node, in this process: its store is real, its disk is not. */
class Agent implements AsyncDisposable {
  readonly node: TestNode
  readonly log: LogEvent[] = []
  readonly #store: KubernetesStore
  readonly #ended = new AbortController()
  readonly #running: Promise<unknown>

  constructor(api: RealApiServer, { name, uid }: Owner) {
    this.node = new TestNode(name, uid)
    const store = new KubernetesStore(connectionTo(api, "agent"))
    this.#store = store
    const log = (event: LogEvent) => void this.log.push(event)
    const randomHex = (bytes: number) => Buffer.from(crypto.getRandomValues(new Uint8Array(bytes))).toString("hex")
    const engine = new Engine({ store, clock, node: this.node, randomHex, log }, { sweepMs: 1000 })
    const pools = store.registerPools((pool) => putPool(store, pool), this.#ended.signal)
    this.#running = Promise.all([engine.run(this.#ended.signal), pools])
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#ended.abort()
    await this.#running
    await this.#store[Symbol.asyncDispose]()
  }
}

test(
  "agents share a pool in a real Kubernetes: no address twice, and the blocks of a deleted node wait in quarantine",
  async () => {
    await using api = await RealApiServer.start()
    await api.deploy()
    const owners = await setNodes(api, ["node-1", "node-2", "node-3"])
    await using stack = new AsyncDisposableStack()
    const agents = owners.map((owner) => stack.use(new Agent(api, owner)))
    const spec = {
      prefixes: [{ prefix: "10.64.0.0/24", blockLength: 28 }, { prefix: "fd00:64::/48" }],
      network: "pods",
    }
    const pool = { apiVersion: "cni-agent.internal/v1", kind: "Pool", metadata: { name: "pods" }, spec }
    const made = await ask(api, "POST", "/apis/cni-agent.internal/v1/pools", { body: pool, account: "operator" })
    expect(made.status).toBe(201)

    const given: string[][] = []
    for (const [at, { node }] of agents.entries()) {
      for (let container = 0; container < 20; container++) {
        const name = `container ${container} of node ${at + 1} to get an address`
        given.push(await waitFor(() => node.add(`${at}-${container}`), name))
      }
    }
    expect(given.flat()).toHaveLength(120)
    expect(new Set(given.flat()).size).toBe(120)
    const blocks = "/apis/cni-agent.internal/v1/blocks"
    const rows = (await api.table(blocks)).split("\n")
    expect(rows[0]).toMatch(/^NAME +POOL +PREFIX +NODE +STATE +EPOCH +AGE$/)
    expect(rows).toContainEqual(
      expect.stringMatching(/^pods-10\.64\.0\.\d+-28 +pods +10\.64\.0\.\d+\/28 +node-1 +owned +1 +\S+$/),
    )

    await agents[2]?.[Symbol.asyncDispose]()
    await ask(api, "DELETE", "/api/v1/nodes/node-3")
    const statesOf = async (name: string) => {
      const { body } = await ask(api, "GET", blocks)
      // biome-ignore lint/suspicious/noExplicitAny: JSON of the API
      return body.items.filter(({ spec }: any) => spec.owner.name === name).map(({ spec }: any) => spec.state)
    }
    const isQuarantined = async () => (await statesOf("node-3")).every((state: string) => state === "quarantined")
    await waitFor(isQuarantined, "the blocks of node-3 to be in quarantine")
    expect(await statesOf("node-3")).not.toEqual([])
    expect(new Set([...(await statesOf("node-1")), ...(await statesOf("node-2"))])).toEqual(new Set(["owned"]))
    console.log(`kubectl get pools,blocks,agentnodes`)
    for (const plural of ["pools", "blocks", "agentnodes"]) {
      console.log(`${await api.table(`/apis/cni-agent.internal/v1/${plural}`)}\n`)
    }
  },
  patient(600_000),
)
