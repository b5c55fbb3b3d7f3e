import type { Kind, Owner, Records } from "../records.ts"
import type { Store, Stored } from "../store.ts"
import { type Connection, secretText } from "../stores/kubernetes/connection.ts"
import { objectName } from "../stores/kubernetes/names.ts"
import { KubernetesStore } from "../stores/kubernetes/store.ts"

/** The accounts of the API servers that tests make, by their tokens. */
export const accounts = ["admin", "agent", "operator"] as const
export type Account = (typeof accounts)[number]
export const tokenOf = (account: Account) => `${account}-token`

/** An API server for tests: the fake one, or a real one. */
export interface ApiUnderTest {
  readonly url: string
  /** The file of its CA, when it speaks TLS. */
  readonly ca?: string
  /** Sends a request to one that this process cannot reach; without it `fetch` does. */
  readonly send?: (url: string, init: BunFetchRequestInit) => Promise<Response>
}

export function connectionTo({ url, ca }: ApiUnderTest, account: Account): Connection {
  return { server: url, token: secretText(tokenOf(account)), ...(ca !== undefined && { ca: secretText(ca) }) }
}

/** One answer of an API server. */
export interface RawAnswer {
  readonly status: number
  // biome-ignore lint/suspicious/noExplicitAny: JSON of the API
  readonly body: any
}

/** A request without any code of the store. */
export async function ask(
  api: ApiUnderTest,
  method: string,
  path: string,
  {
    body,
    account = "admin",
    token = `${account}-token`,
    accept = "application/json",
    contentType = "application/json",
  }: { body?: unknown; account?: Account | "unknown"; token?: string; accept?: string; contentType?: string } = {},
): Promise<RawAnswer> {
  const send = api.send ?? fetch
  const response = await send(`${api.url}${path}`, {
    method,
    headers: { authorization: `Bearer ${token}`, "content-type": contentType, accept },
    ...(body !== undefined && { body: JSON.stringify(body) }),
    ...(api.ca !== undefined && { tls: { ca: api.ca } }),
  })
  const text = await response.text()
  try {
    return { status: response.status, body: JSON.parse(text) }
  } catch {
    return { status: response.status, body: text }
  }
}

/** What only people remove, and what agents read by lists and watches alone: they have no right to it. */
const isRemovedByOperators = (kind: Kind) => kind === "fixed" || kind === "registry" || kind === "node"
const isListedAlone = (kind: Kind) => kind === "node" || kind === "want"

/**
 * The store with the agent's account, and with the operator's for what operators do: so a test that passes has shown that the
 * roles of `deploy/cluster` allow all that is needed.
 */
export function openAsAgent(api: ApiUnderTest): Store {
  const agent = new KubernetesStore(connectionTo(api, "agent"))
  const operator = new KubernetesStore(connectionTo(api, "operator"))
  return {
    name: agent.name,
    identity: () => agent.identity(),
    find: (kind, key) => (isListedAlone(kind) ? operator : agent).find(kind, key),
    list: (kind) => agent.list(kind),
    create: <K extends Kind>(kind: K, key: string, value: Records[K]) =>
      (kind === "fixed" ? operator : agent).create(kind, key, value),
    replace: (stored, value) => agent.replace(stored, value),
    remove: <K extends Kind>(stored: Stored<K>) =>
      (isRemovedByOperators(stored.kind) ? operator : agent).remove(stored),
    watch: (kind, signal) => agent.watch(kind, signal),
    members: () => agent.members(),
    boundPods: (node, signal) => agent.boundPods(node, signal),
    async [Symbol.asyncDispose]() {
      await agent[Symbol.asyncDispose]()
      await operator[Symbol.asyncDispose]()
    },
  }
}

/** Has the cluster have exactly these nodes. An API server chooses the UIDs itself: the members are those that `listNodes` tells. */
export async function setNodes(api: ApiUnderTest, names: readonly string[]): Promise<Owner[]> {
  const { body } = await ask(api, "GET", "/api/v1/nodes")
  for (const { metadata } of body.items) await ask(api, "DELETE", `/api/v1/nodes/${metadata.name}`)
  for (const name of names) {
    await ask(api, "POST", "/api/v1/nodes", { body: { apiVersion: "v1", kind: "Node", metadata: { name } } })
  }
  const after = await ask(api, "GET", "/api/v1/nodes")
  // biome-ignore lint/suspicious/noExplicitAny: JSON of the API
  return after.body.items.map(({ metadata: { name, uid } }: any) => ({ name, uid, machineId: "" }))
}

/** The object of a block, as agents write it. */
export function blockObject(prefix: string, changes: Partial<Records["block"]> = {}, metadata: object = {}): object {
  const owner = { name: "node-1", uid: "uid-1", machineId: "machine-1" }
  const spec = { pool: "pods", prefix, owner, nonce: "n", epoch: 1, state: "owned", ...changes }
  const name = objectName("block", `pods/${prefix}`)
  return { apiVersion: "cni-agent.internal/v1", kind: "Block", metadata: { name, ...metadata }, spec }
}
