import type { StoreConfig } from "../../config.ts"
import type { Kind, Owner, Records } from "../../records.ts"
import { type Identity, type PodName, type Store, type Stored, StoreError, type WatchEvent } from "../../store.ts"
import { type Answer, ApiClient, type ApiRequest, metadataOfEach, metadataOnly, refusal } from "./client.ts"
import { type Connection, serviceAccount } from "./connection.ts"
import { followObjects, listObjects, type Selection } from "./follow.ts"
import { readKubeconfig } from "./kubeconfig.ts"
import { objectName } from "./names.ts"
import {
  type ApiObject,
  comparedOf,
  ipPoolResource,
  nodeResource,
  podResource,
  resourceOf,
  toObject,
  toStored,
} from "./objects.ts"
import { type RegisterPool, registerPools } from "./pools.ts"

const accept = { list: metadataOnly, watch: metadataOfEach }

/**
 * The store in a Kubernetes cluster: each record is a custom resource (`deploy/cluster`), as `kubectl get blocks,agentnodes` shows them.
 * The name is the lock: the API server creates an object once, and replaces or deletes it only at the version that is named.
 */
export class KubernetesStore implements Store {
  readonly name: string
  readonly #client: ApiClient

  constructor(connection: Connection) {
    this.#client = new ApiClient(connection)
    this.name = `Kubernetes at ${connection.server}`
  }

  /** With a kubeconfig, or the service account of the pod that the environment tells of. Throws code 7 where neither can be used. */
  static open(
    { kubeconfig }: Extract<StoreConfig, { type: "kubernetes" }>,
    environment: Readonly<Record<string, string | undefined>>,
  ): KubernetesStore {
    return new KubernetesStore(kubeconfig === undefined ? serviceAccount(environment) : readKubeconfig(kubeconfig))
  }

  /** The namespace "kube-system" lives as long as its cluster. */
  async identity(): Promise<Identity> {
    const what = "read the identity of the cluster"
    const namespace = await this.#client.require({ what, method: "GET", path: "/api/v1/namespaces/kube-system" })
    const { path } = resourceOf.registry
    const { metadata } = await this.#client.require({ what, method: "GET", path, query: { limit: "1" } })
    return { cluster: namespace.metadata.uid, revision: BigInt(metadata.resourceVersion) }
  }

  async find<K extends Kind>(kind: K, key: string): Promise<Stored<K> | undefined> {
    const request = { what: `read ${kind} "${key}"`, method: "GET", path: pathOf(kind, key) } as const
    const answer = await this.#client.call(request)
    if (isMissing(answer)) return undefined
    return this.#stored(kind, request, answer)
  }

  async list<K extends Kind>(kind: K): Promise<Stored<K>[]> {
    const { objects } = await listObjects(this.#client, { resource: resourceOf[kind] })
    return objects.flatMap((object) => toStored(kind, object) ?? [])
  }

  async create<K extends Kind>(kind: K, key: string, value: Records[K]): Promise<Stored<K> | undefined> {
    const body = toObject(kind, key, value)
    const request = { what: `create ${kind} "${key}"`, method: "POST", path: resourceOf[kind].path, body } as const
    const answer = await this.#client.call(request)
    if (answer.status === 409 && answer.body?.reason === "AlreadyExists") return undefined
    return this.#stored(kind, request, answer)
  }

  async replace<K extends Kind>(stored: Stored<K>, value: Records[K]): Promise<Stored<K> | undefined> {
    const { kind, key } = stored
    const body = toObject(kind, key, value, comparedOf(stored))
    const request = { what: `replace ${kind} "${key}"`, method: "PUT", path: pathOf(kind, key), body } as const
    const answer = await this.#client.call(request)
    if (answer.status === 409 || isMissing(answer)) return undefined
    return this.#stored(kind, request, answer)
  }

  async remove<K extends Kind>(stored: Stored<K>): Promise<boolean> {
    const { kind, key } = stored
    const body = { apiVersion: "v1", kind: "DeleteOptions", preconditions: comparedOf(stored) }
    const request = { what: `remove ${kind} "${key}"`, method: "DELETE", path: pathOf(kind, key), body } as const
    const answer = await this.#client.call(request)
    if (answer.status === 409 || isMissing(answer)) return false
    if (answer.status >= 300) throw refusal(request, answer)
    return true
  }

  async *watch<K extends Kind>(kind: K, signal: AbortSignal): AsyncGenerator<WatchEvent<K>, void> {
    for await (const change of followObjects(this.#client, { resource: resourceOf[kind] }, signal)) {
      if (change.type === "all") {
        yield { type: "all", records: change.objects.flatMap((object) => toStored(kind, object) ?? []) }
        continue
      }
      const record = toStored(kind, change.object)
      if (!record) continue
      yield change.type === "put" ? { type: "put", record } : { type: "removed", key: record.key }
    }
  }

  /** The Node objects: name and UID. The machine id is "": a list without the nodes' status is a hundredth of the bytes. */
  async members(): Promise<readonly Owner[]> {
    const { objects } = await listObjects(this.#client, { resource: nodeResource, accept })
    return objects.map(ownerOf)
  }

  /** The pods that are bound to a node and have not ended. */
  async *boundPods(node: string, signal: AbortSignal): AsyncGenerator<readonly PodName[], void> {
    const fieldSelector = `spec.nodeName=${node},status.phase!=Succeeded,status.phase!=Failed`
    for await (const pods of this.#present({ resource: podResource, fieldSelector, accept }, signal)) {
      yield pods.map(({ metadata }) => ({ namespace: metadata.namespace ?? "", pod: metadata.name }))
    }
  }

  /**
   * The prefixes that the cluster has given a node (`Node.spec.podCIDRs`), and again after each change. Nothing while there is no such
   * node: the prefixes that it had stay in use.
   */
  async *podCidrs(node: string, signal: AbortSignal): AsyncGenerator<readonly string[], void> {
    let last: readonly string[] | undefined
    for await (const nodes of this.#present(
      { resource: nodeResource, fieldSelector: `metadata.name=${node}` },
      signal,
    )) {
      const [object] = nodes
      if (!object) continue
      const { podCIDRs = [] } = (object.spec ?? {}) as { podCIDRs?: string[] }
      if (Bun.deepEquals(podCIDRs, last)) continue // a kubelet writes the status of its node often
      last = podCIDRs
      yield podCIDRs
    }
  }

  /** The IPPools of whereabouts, in the form of `kubectl get ippools -A -o json`. */
  async ipPools(): Promise<{ readonly items: readonly ApiObject[] }> {
    const { objects } = await listObjects(this.#client, { resource: ipPoolResource })
    return { items: objects }
  }

  /** Registers the pools that users write as `Pool` objects, until `signal` is aborted; writes what has become of each into its status. */
  registerPools(register: RegisterPool, signal: AbortSignal): Promise<void> {
    return registerPools(this.#client, register, signal)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#client[Symbol.asyncDispose]()
  }

  /** All objects of a selection after each change. */
  async *#present(selection: Selection, signal: AbortSignal): AsyncGenerator<readonly ApiObject[], void> {
    const objects = new Map<string, ApiObject>()
    for await (const change of followObjects(this.#client, selection, signal)) {
      if (change.type === "all") {
        objects.clear()
        for (const object of change.objects) objects.set(idOf(object), object)
      } else if (change.type === "put") objects.set(idOf(change.object), change.object)
      else objects.delete(idOf(change.object))
      yield [...objects.values()]
    }
  }

  #stored<K extends Kind>(kind: K, request: ApiRequest, answer: Answer): Stored<K> {
    if (answer.status >= 300) throw refusal(request, answer)
    const stored = toStored(kind, answer.body)
    if (stored) return stored
    const outcome = request.method === "GET" ? "refused" : "unknown"
    throw new StoreError(`Cannot ${request.what}: the object has no such record`, outcome)
  }
}

const pathOf = (kind: Kind, key: string) => `${resourceOf[kind].path}/${objectName(kind, key)}`

const idOf = ({ metadata: { namespace = "", name } }: ApiObject) => `${namespace}/${name}`

function ownerOf({ metadata: { name, uid = "" } }: ApiObject): Owner {
  return { name, uid, machineId: "" }
}

/** Whether there is no such object. A server that does not know the kind answers 404 in other words: its CRDs are not there yet. */
function isMissing({ status, body }: Answer): boolean {
  return status === 404 && body?.details?.name !== undefined
}
