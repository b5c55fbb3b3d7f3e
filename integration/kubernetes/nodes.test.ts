import { afterAll, beforeAll, expect, test } from "bun:test"
import { type ClusterNode, type ClusterPod, Referee } from "../cluster/mod.ts"
import { listNamespaces, namespacePrefix, patient, ping, waitFor } from "../lab/mod.ts"
import { KubernetesCluster, podsNetwork, sharedNetwork } from "./testing/cluster.ts"

const limitMs = patient(600_000)

let cluster: KubernetesCluster
let referee: Referee
let one: ClusterNode
let two: ClusterNode
let three: ClusterNode

beforeAll(async () => {
  cluster = await KubernetesCluster.start(3)
  referee = await Referee.start()
  ;[one, two, three] = cluster.nodes as [ClusterNode, ClusterNode, ClusterNode]
}, limitMs)

afterAll(async () => {
  await referee?.[Symbol.asyncDispose]()
  await cluster?.[Symbol.asyncDispose]()
})

/** Each pod reaches all addresses of the others. */
async function expectConnected(pods: readonly ClusterPod[]): Promise<void> {
  for (const from of pods) {
    for (const address of pods.filter((pod) => pod !== from).flatMap(({ addresses }) => addresses))
      expect([address, await ping(from.namespace, address)]).toEqual([address, true])
  }
}

/** The cells of a table of `kubectl get`, each row by its headings. */
function rowsOf(table: string): Record<string, string>[] {
  const [first = [], ...rest] = table.split("\n").map((line) => line.split(/ {2,}/))
  return rest.map((cells) => Object.fromEntries(first.map((heading, at) => [heading, cells[at] ?? ""])))
}

test(
  "pods of three nodes reach each other, in both families, by the pool of a Pool object",
  async () => {
    await cluster.applyExample("pool.yaml")
    for (const node of cluster.nodes) await node.waitForBlocks(2)
    const pods = await Promise.all(cluster.nodes.map((node) => node.addPod({ network: podsNetwork })))
    for (const { addresses } of pods)
      expect(addresses).toEqual([expect.stringMatching(/^10\.64\./), expect.stringMatching(/^fd00:64:/)])
    await expectConnected(pods)
  },
  limitMs,
)

test(
  "while the API server is down containers get addresses and reach each other; when it is back agents claim blocks of a new pool",
  async () => {
    await cluster.api.kill()
    const pods = await Promise.all(cluster.nodes.map((node) => node.addPod({ network: podsNetwork })))
    await expectConnected(pods)
    await cluster.api.restart()
    await cluster.applyExample("fixed-address.yaml")
    for (const node of cluster.nodes) await node.waitForBlocks(1, "shared")
  },
  limitMs,
)

test(
  "an agent goes on with the token that its file has now, after the one before is refused",
  async () => {
    const before = (await cluster.giveToken(one)) ?? expect.unreachable()
    expect(await cluster.isValid(before)).toBe(true)
    await cluster.revoke(before)
    await waitFor(async () => !(await cluster.isValid(before)), "the first token to be refused")
    const [block] = await one.waitForBlocks(1, "shared")
    for (let count = 0; count < 9; count++) await one.addPod({ network: sharedNetwork })
    expect(await one.waitForBlocks(2, "shared")).toContain(block ?? "")
  },
  limitMs,
)

test(
  "a pod keeps its fixed address when it moves to another node",
  async () => {
    const args = "IgnoreUnknown=1;K8S_POD_NAMESPACE=db;K8S_POD_NAME=mysql-0"
    const addOn = async (node: ClusterNode) => {
      await cluster.bindPod("db", "mysql-0", node)
      const isWritten = async () => (await node.poolFile("shared"))?.fixed["db/mysql-0/eth0"]?.length === 1
      await waitFor(isWritten, `the fixed address in the file of ${node.name}`)
      const pod = await node.addPod({ network: sharedNetwork, args })
      expect(pod.addresses).toEqual(["192.0.2.5"])
      const [fixed] = rowsOf(await cluster.table("fixedaddresses"))
      expect(fixed).toMatchObject({ NAMESPACE: "db", POD: "mysql-0", ADDRESSES: '["192.0.2.5"]', NODE: node.name })
      return pod
    }
    await cluster.request("POST", "/api/v1/namespaces", {
      apiVersion: "v1",
      kind: "Namespace",
      metadata: { name: "db" },
    })
    const neighbour = await three.addPod({ network: sharedNetwork })
    const first = await addOn(one)
    await expectConnected([neighbour, first])
    await cluster.deletePod("db", "mysql-0")
    await cluster.bindPod("db", "mysql-0", two)
    const doesWait = async () => (await two.poolFile("shared"))?.fixed["db/mysql-0/eth0"]?.length === 0
    await waitFor(doesWait, "the pod to wait for its address")
    await expect(two.addPod({ network: sharedNetwork, args })).rejects.toThrow("db/mysql-0/eth0\\\" is not this node's")
    await cluster.deletePod("db", "mysql-0")
    await one.deletePod(first)
    const second = await addOn(two)
    await expectConnected([neighbour, second])
    expect((await one.poolFile("shared"))?.fixed).toEqual({ "db/mysql-0/eth0": [] })
  },
  limitMs,
)

test(
  "the blocks of a node whose Node object was deleted are in quarantine after two looks of the others, and kubectl shows it",
  async () => {
    await three.endAgent()
    await cluster.request("DELETE", `/api/v1/nodes/${three.name}`)
    const statesOf = async (node: ClusterNode) => {
      const rows = rowsOf(await cluster.table("blocks")).filter(({ NODE }) => NODE === node.name)
      return [rows.length, [...new Set(rows.map(({ STATE }) => STATE))].join()] as const
    }
    const isQuarantined = async () => (await statesOf(three))[1] === "quarantined"
    await waitFor(isQuarantined, `the blocks of ${three.name} to be in quarantine`, 400_000) // a look each minute
    expect(await statesOf(three)).toEqual([3, "quarantined"])
    expect(await statesOf(one)).toEqual([4, "owned"])
    expect(await statesOf(two)).toEqual([3, "owned"])

    const [pods, shared] = rowsOf(await cluster.table("pools"))
    expect(pods).toMatchObject({ NAME: "pods", PREFIXES: "10.64.0.0/16", NETWORK: "pods", ROUTING: "host-gw" })
    expect(shared).toMatchObject({ NAME: "shared", PREFIXES: "192.0.2.0/24", NETWORK: "shared", ROUTING: "none" })
    const nodes = rowsOf(await cluster.table("agentnodes"))
    expect(nodes.find(({ NAME }) => NAME === one.name)).toMatchObject({ ADDRESSES: '["10.99.0.11","fd99::11"]' })
    const views: string[] = []
    for (const plural of ["pools", "blocks", "agentnodes", "fixedaddresses"])
      views.push(`$ kubectl get ${plural}\n${await cluster.table(plural)}\n`)
    const file = process.env.CNI_KUBERNETES_VIEW // `npm run test:kubernetes` prints it
    if (file) await Bun.write(file, views.join("\n"))
    else console.log(views.join("\n"))
  },
  limitMs,
)

test(
  "no address was in two containers at one time, and nothing is left",
  async () => {
    const { twice, addresses } = await referee.end()
    expect(twice).toEqual([])
    expect(addresses).toBeGreaterThan(20)
    await cluster[Symbol.asyncDispose]()
    expect(await listNamespaces(namespacePrefix(process.pid))).toEqual([])
  },
  limitMs,
)
