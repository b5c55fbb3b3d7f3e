import { rename } from "node:fs/promises"
import { ask, setNodes } from "../../../agent/testing/kubernetes-stores.ts"
import { ClusterNode } from "../../cluster/mod.ts"
import { HostNamespace, newest } from "../../lab/mod.ts"
import { RealApiServer } from "./api-server.ts"
import { readManifests } from "./manifests.ts"

/** Where the API server is, on the link of the nodes. */
const serverAddress = "10.99.0.254"
/** In each node: a kubeconfig, and the files that it names. */
const account = "/run/cni/account"

/** The network of deploy/examples/pool.yaml. */
export const podsNetwork = {
  cniVersion: newest,
  name: "pods",
  type: "bridge",
  bridge: "cni0",
  isDefaultGateway: true,
  ipam: { type: "host-local", pool: "pods" },
} as const

/** The network of deploy/examples/fixed-address.yaml: containers are on the link of the nodes themselves. */
export const sharedNetwork = {
  cniVersion: newest,
  name: "shared",
  type: "macvlan",
  master: "eth0",
  ipam: { type: "host-local", pool: "shared" },
} as const

/** A token of the agents' service account. It is bound to a Secret, and is worth nothing when that is deleted. */
export interface BoundToken {
  readonly text: string
  readonly secret: string
}

/**
 * A cluster in namespaces: a real kube-apiserver on the link of the nodes, and nodes with the built agent, which has a kubeconfig with a token
 * of the service account of `deploy/`. No kubelet: tests bind pods, and call the plugins.
 */
export class KubernetesCluster implements AsyncDisposable {
  readonly api: RealApiServer
  readonly nodes: readonly ClusterNode[]
  readonly #owned: AsyncDisposableStack
  /** The token that each node's agent has now. */
  readonly #tokens = new Map<ClusterNode, BoundToken>()

  private constructor(api: RealApiServer, nodes: readonly ClusterNode[], owned: AsyncDisposableStack) {
    this.api = api
    this.nodes = nodes
    this.#owned = owned
  }

  /** Starts the API server with the objects of `deploy/cluster`, and nodes 11 and on with their agents. There is no pool yet. */
  static async start(count: number): Promise<KubernetesCluster> {
    await using stack = new AsyncDisposableStack()
    const lan = stack.use(await makeLan())
    const api = stack.use(await RealApiServer.start({ namespace: lan, address: serverAddress }))
    await api.deploy()
    const numbers = Array.from({ length: count }, (_, at) => 11 + at)
    await setNodes(
      api,
      numbers.map((number) => `node-${number}`),
    )
    const nodes: ClusterNode[] = []
    for (const number of numbers) nodes.push(stack.use(await makeNode(lan, number)))
    const cluster = new KubernetesCluster(api, nodes, stack.move())
    try {
      for (const node of nodes) {
        await writeKubeconfig(node, api)
        await cluster.giveToken(node)
        node.startAgent()
      }
      return cluster
    } catch (error) {
      await cluster[Symbol.asyncDispose]()
      throw error
    }
  }

  /** A request that has to succeed; answers the object. */
  async request(method: string, path: string, body?: object): Promise<Awaited<ReturnType<typeof ask>>["body"]> {
    const answer = await ask(this.api, method, path, { ...(body && { body }) })
    if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`)
    return answer.body
  }

  /** Has a file of `deploy/examples` applied. */
  async applyExample(file: string): Promise<void> {
    await this.api.apply(await readManifests(`deploy/examples/${file}`))
  }

  /** Puts a new token into the file of a node's agent. Answers the one that was there. */
  async giveToken(node: ClusterNode): Promise<BoundToken | undefined> {
    const before = this.#tokens.get(node)
    const secret = `${node.name}-${crypto.randomUUID()}`
    const namespace = "/api/v1/namespaces/kube-system"
    await this.request("POST", `${namespace}/secrets`, { apiVersion: "v1", kind: "Secret", metadata: { name: secret } })
    const { status } = await this.request("POST", `${namespace}/serviceaccounts/cni-agent/token`, {
      apiVersion: "authentication.k8s.io/v1",
      kind: "TokenRequest",
      spec: { expirationSeconds: 3600, boundObjectRef: { apiVersion: "v1", kind: "Secret", name: secret } },
    })
    const file = node.host.file(`${account}/token`)
    await Bun.write(`${file}.new`, status.token)
    await rename(`${file}.new`, file)
    this.#tokens.set(node, { text: status.token, secret })
    return before
  }

  /** Has a token be worth nothing. */
  async revoke({ secret }: BoundToken): Promise<void> {
    await this.request("DELETE", `/api/v1/namespaces/kube-system/secrets/${secret}`)
  }

  /** Whether the API server takes a token. */
  async isValid({ text }: BoundToken): Promise<boolean> {
    const { status } = await ask(this.api, "GET", "/apis/cni-agent.internal/v1/blocks?limit=1", { token: text })
    return status !== 401
  }

  /** Makes a pod that is bound to a node already. */
  async bindPod(namespace: string, name: string, node: ClusterNode): Promise<void> {
    const spec = { nodeName: node.name, containers: [{ name: "main", image: "registry.invalid/main" }] }
    const pod = { apiVersion: "v1", kind: "Pod", metadata: { name }, spec }
    await this.request("POST", `/api/v1/namespaces/${namespace}/pods`, pod)
  }

  /** Deletes a pod at once, as kubelet does after its containers have ended. */
  async deletePod(namespace: string, name: string): Promise<void> {
    await this.request("DELETE", `/api/v1/namespaces/${namespace}/pods/${name}?gracePeriodSeconds=0`)
  }

  /** What `kubectl get PLURAL` shows. */
  table(plural: string): Promise<string> {
    return this.api.table(`/apis/cni-agent.internal/v1/${plural}`)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#owned.disposeAsync()
  }
}

/** The link of the nodes: a bridge, with the addresses of the API server and of the gateway of "shared". */
async function makeLan(): Promise<HostNamespace> {
  const lan = await HostNamespace.create("lan")
  await lan.exec("ip", ["link", "add", "lan", "type", "bridge"])
  for (const address of [`${serverAddress}/24`, "192.0.2.1/24"])
    await lan.exec("ip", ["address", "add", address, "dev", "lan"])
  await lan.exec("ip", ["link", "set", "lan", "up"])
  return lan
}

async function makeNode(lan: HostNamespace, number: number): Promise<ClusterNode> {
  const store = { type: "kubernetes", kubeconfig: `${account}/kubeconfig` } as const
  const v6 = `fd99::${number}`
  const node = await ClusterNode.create({ lan, store, number, keys: { nodeAddresses: [`10.99.0.${number}`, v6] } })
  await node.host.exec("ip", ["address", "add", `${v6}/64`, "dev", "eth0", "nodad"])
  return node
}

/** Writes a kubeconfig whose token is in a file beside it. */
async function writeKubeconfig(node: ClusterNode, { url, ca }: RealApiServer): Promise<void> {
  const config = {
    "current-context": "node",
    contexts: [{ name: "node", context: { cluster: "lab", user: "cni-agent" } }],
    clusters: [{ name: "lab", cluster: { server: url, "certificate-authority": "ca.crt" } }],
    users: [{ name: "cni-agent", user: { tokenFile: "token" } }],
  }
  await Bun.write(node.host.file(`${account}/kubeconfig`), Bun.YAML.stringify(config))
  await Bun.write(node.host.file(`${account}/ca.crt`), ca)
}
