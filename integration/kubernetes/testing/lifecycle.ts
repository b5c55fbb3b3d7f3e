import { waitFor } from "../../lab/mod.ts"
import type { Cluster } from "./cluster.ts"
import type { ClusterNode } from "./cluster-node.ts"
import { idlePods, type Pod, pingPods, readPods } from "./pods.ts"

const limitMs = 600_000
/** The number of pods in a range of 16 addresses. Three addresses are the network, the gateway and broadcast. */
const podsOfRange = 13
const outageMs = 120_000

interface PodObject {
  readonly metadata: { readonly deletionTimestamp?: string }
  readonly spec: { readonly hostNetwork?: boolean }
  readonly status: {
    readonly conditions?: readonly { readonly type: string; readonly status: string }[]
    readonly podIPs?: readonly { readonly ip: string }[]
  }
}

/** The events in the life of a cluster. Each function returns when the objects have their expected state. */
const events: Readonly<Record<string, (cluster: Cluster) => Promise<void>>> = {
  async "Node deleted and created again"(cluster) {
    await recreate(cluster, nodeOf(cluster, 2))
    await deletePods(cluster, nodeOf(cluster, 2))
  },
  async "node drained, Node deleted and created again"(cluster) {
    const drain = ["--ignore-daemonsets", "--force", "--delete-emptydir-data", "--timeout=300s"]
    await cluster.kubectl(["drain", nodeOf(cluster, 1).name, ...drain])
    await recreate(cluster, nodeOf(cluster, 1))
    await deletePods(cluster, nodeOf(cluster, 1))
  },
  async "controller manager down, Node deleted and created again, pods killed"(cluster) {
    await cluster.end("kube-controller-manager")
    await recreate(cluster, nodeOf(cluster, 3))
    await killPods(nodeOf(cluster, 3))
    await cluster.begin("kube-controller-manager")
    await deletePods(cluster, nodeOf(cluster, 3))
  },
  async "API server down for two minutes, pods killed six times"(cluster) {
    await cluster.kubectl(["delete", "pods", "--all", "--wait=false"])
    await cluster.api.down()
    for (let times = 0; times < 6; times++) {
      await Promise.all(cluster.nodes.map(killPods))
      await Bun.sleep(outageMs / 6)
    }
    await cluster.api.up()
  },
  async "range exhausted"(cluster) {
    const node = nodeOf(cluster, 1)
    const deploy = (replicas: number) => cluster.apply(idlePods("many", { replicas, nodeName: node.name }))
    await deploy(podsOfRange + 3)
    const isFull = async () => (await readPods(cluster)).filter((pod) => pod.node === node).length === podsOfRange
    await waitFor(isFull, "the range to be full", limitMs)
    await deploy(2)
    await cluster.waitUntilReady("deployment/many")
  },
}

function nodeOf({ nodes }: Cluster, number: number): ClusterNode {
  const node = nodes.find(({ name }) => name === `node-${number}`)
  if (node === undefined) throw new Error(`Cannot find node ${number}`)
  return node
}

/** Deletes a Node object, and restarts kubelet, which creates it again. */
async function recreate(cluster: Cluster, node: ClusterNode): Promise<void> {
  await cluster.kubectl(["delete", "node", node.name])
  await node.restartKubelet()
  await waitFor(() => cluster.kubectl(["get", "node", node.name]), `the Node ${node.name}`, limitMs)
}

/** Deletes the pods of a node whose range may have changed, as docs/kubernetes.md says. */
async function deletePods(cluster: Cluster, { name }: ClusterNode): Promise<void> {
  await cluster.kubectl(["wait", "--for=condition=Ready", `node/${name}`, `--timeout=${limitMs / 1000}s`])
  for (const namespace of ["default", "kube-system"])
    await cluster.kubectl(["-n", namespace, "delete", "pods", `--field-selector=spec.nodeName=${name}`])
}

/** Kills all processes of idle pods. kubelet then creates new sandboxes without the API server. */
async function killPods({ host }: ClusterNode): Promise<void> {
  await host.tryExec("pkill", ["-KILL", "-x", "agnhost"])
}

/** Returns all pods, or undefined until each pod is ready and has the addresses that the API server knows. */
async function settledPods(cluster: Cluster): Promise<readonly Pod[] | undefined> {
  const { body } = await cluster.api.ask("GET", "/api/v1/pods")
  const known: PodObject[] = body.items.filter(({ spec }: PodObject) => !spec.hostNetwork)
  const isReady = ({ metadata, status }: PodObject) =>
    !metadata.deletionTimestamp && status.conditions?.some(({ type, status }) => type === "Ready" && status === "True")
  if (!known.every(isReady)) return undefined
  const pods = await readPods(cluster)
  const read = pods.flatMap(({ addresses }) => addresses)
  const expected = known.flatMap(({ status }) => (status.podIPs ?? []).map(({ ip }) => ip))
  return Bun.deepEquals(read.sort(), expected.sort()) ? pods : undefined
}

/** Runs all events in order, and returns a table of the pods' states after each event. */
export async function runLifecycle(cluster: Cluster): Promise<string> {
  await cluster.apply(idlePods("idle"))
  await cluster.waitUntilReady("daemonset/idle")
  const rows: string[] = []
  for (const [what, happen] of Object.entries(events)) {
    let isOver = false
    const happening = happen(cluster).finally(() => (isOver = true))
    let reads = 0
    for (; !isOver; reads++) await Promise.all([readPods(cluster), Promise.race([happening, Bun.sleep(2000)])])
    await happening
    await cluster.kubectl(["wait", "--for=condition=Ready", "nodes", "--all", `--timeout=${limitMs / 1000}s`])
    for (const workload of ["daemonset/idle", "deployment/coredns"])
      await cluster.waitUntilReady(workload, workload.endsWith("coredns") ? "kube-system" : "default")
    const pods = await waitFor(() => settledPods(cluster), "all pods to be ready", limitMs)
    const began = performance.now()
    await waitFor(() => pingPods(pods).then(() => true), "all pods to reach each other")
    const seconds = ((performance.now() - began) / 1000).toFixed(1)
    console.log(`${what}: ${pods.length} pods reach each other after ${seconds} seconds`)
    rows.push(`| ${what} | ${reads} | ${pods.length} | ${seconds} |`)
  }
  return `Each node has a range of 16 addresses. While something happened, a referee read the addresses of all pods' network
namespaces: no two had the same. Afterward each pod sent a ping to each other one. The seconds count from the time when
all Nodes and pods were ready, and include the pings themselves.

| what happened | reads | pods | seconds until all answered |
| --- | --- | --- | --- |
${rows.join("\n")}
`
}
