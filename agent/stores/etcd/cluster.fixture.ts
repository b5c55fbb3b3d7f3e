import type { StoreConfig } from "../../config.ts"
import { type Block, keyOf } from "../../records.ts"
import { type Store, type Stored, StoreError } from "../../store.ts"
import type { StoreUnderTest } from "../../testing/store-contract.ts"
import { FakeEtcd, FakeGateway } from "./fake-gateway.fixture.ts"
import { type EtcdLimits, openEtcdStore } from "./store.ts"

type EtcdConfig = Extract<StoreConfig, { type: "etcd" }>

/** An etcd of so many members, and stores that ask it. */
export class Cluster implements StoreUnderTest {
  readonly etcd = new FakeEtcd()
  readonly members: FakeGateway[]
  readonly #stores: Store[] = []

  constructor(count = 1) {
    this.members = Array.from({ length: count }, () => new FakeGateway(this.etcd))
  }

  get first(): FakeGateway {
    const [first] = this.members
    if (!first) throw new Error("there is no member")
    return first
  }

  store(config: Partial<EtcdConfig> = {}, limits: Partial<EtcdLimits> = {}): Store {
    const endpoints = this.members.map(({ endpoint }) => endpoint)
    const store = openEtcdStore({ type: "etcd", endpoints, ...config }, limits)
    this.#stores.push(store)
    return store
  }

  async open(): Promise<Store> {
    return this.store({}, { pageRecords: 100 })
  }

  loseNextAnswer(): void {
    this.#atNextChange(async (request, body) => {
      this.first.odd = undefined
      await fetch(request.url, { method: "POST", body: JSON.stringify(body) })
      return new Response("the answer is lost", { status: 502 })
    })
  }

  loseNextRequest(): void {
    this.#atNextChange(async () => {
      this.first.odd = undefined
      return new Response("the request is lost", { status: 502 })
    })
  }

  #atNextChange(act: (request: Request, body: object) => Promise<Response>): void {
    this.first.odd = (path, body, request) => (path === "/v3/kv/txn" ? act(request, body) : undefined)
  }

  async makeGap(during: () => Promise<void>): Promise<void> {
    this.first.odd = (path) => (path === "/v3/watch" ? new Response("not now", { status: 503 }) : undefined)
    this.etcd.cut()
    await during()
    this.etcd.compact()
    this.first.odd = undefined
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const store of this.#stores) await store[Symbol.asyncDispose]()
    for (const member of this.members) await member[Symbol.asyncDispose]()
  }
}

const owner = { name: "node-1", uid: "6d9c2f4e", machineId: "" }

/** Block 3 is 10.64.3.0/26. */
export function block(at: number, changes: Partial<Block> = {}): Block {
  return { pool: "pods", prefix: `10.64.${at}.0/26`, owner, nonce: "n", epoch: 1, state: "owned", ...changes }
}

export const keyOfBlock = (at: number) => keyOf.block(block(at))

/** The error of a call that has to fail. */
export async function errorOf(call: Promise<unknown>): Promise<StoreError> {
  const error = await call.then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  if (error instanceof StoreError) return error
  throw new Error(`expected a StoreError: ${error}`)
}

/** Makes block 1, or another. */
export const make = (store: Store, at = 1): Promise<Stored<"block"> | undefined> =>
  store.create("block", keyOfBlock(at), block(at))
