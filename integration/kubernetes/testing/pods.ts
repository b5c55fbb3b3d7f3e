import type { Cluster } from "./cluster.ts"
import type { ClusterNode } from "./cluster-node.ts"
import { testImage } from "./images.ts"

/** The kernel's view of a pod: the network namespace that the runtime created for it, and its addresses. */
export interface Pod {
  readonly node: ClusterNode
  readonly path: string
  readonly addresses: readonly string[]
}

interface Count {
  readonly replicas: number
  readonly nodeName: string
  readonly hostNetwork?: boolean
}

/** Returns a workload of idle pods. Without `count`, each node has one pod. */
export function idlePods(name: string, count?: Count): object {
  const labels = { app: name }
  const container = { name: "idle", image: testImage, args: ["pause"] }
  const at = count && { nodeSelector: { "kubernetes.io/hostname": count.nodeName }, hostNetwork: count.hostNetwork }
  const spec = { terminationGracePeriodSeconds: 0, containers: [container], ...at }
  return {
    apiVersion: "apps/v1",
    kind: count === undefined ? "DaemonSet" : "Deployment",
    metadata: { name },
    spec: { selector: { matchLabels: labels }, template: { metadata: { labels }, spec }, replicas: count?.replicas },
  }
}

/**
 * A script that prints the addresses in each namespace of a runtime. It skips a namespace deleted during the run.
 */
const list = `
  for path in /run/netns/*; do
    addresses=$(nsenter --net="$path" ip -o address show dev eth0 scope global 2>/dev/null) || continue
    echo "$path" $(echo "$addresses" | awk '{ sub("/.*", "", $4); print $4 }')
  done`

/** Returns the pods of all nodes that have addresses. Throws if two pods have the same address. */
export async function readPods({ nodes }: Cluster): Promise<Pod[]> {
  const ofNode = async (node: ClusterNode) => {
    const { stdout } = await node.host.exec("sh", ["-c", list])
    const pods = stdout.split("\n").map((line) => line.split(" "))
    return pods.flatMap(([path = "", ...addresses]) => (addresses.length > 0 ? [{ node, path, addresses }] : []))
  }
  const pods = (await Promise.all(nodes.map(ofNode))).flat()
  const owners = new Map<string, string>()
  for (const { node, path, addresses } of pods)
    for (const address of addresses) {
      const [owner, other] = [`${node.name}:${path}`, owners.get(address)]
      if (other !== undefined) throw new Error(`Both ${other} and ${owner} have ${address}`)
      owners.set(address, owner)
    }
  return pods
}

/** Sends a ping from each pod to each other pod. Throws if a pod does not answer. */
export async function pingPods(pods: readonly Pod[]): Promise<void> {
  const script =
    'for address; do ping -c1 -W5 -q "$address" >/dev/null || { echo "$address does not answer"; exit 1; }; done'
  for (const { node, path } of pods) {
    const others = pods.flatMap((pod) => (pod.path === path ? [] : pod.addresses))
    await node.host.exec("nsenter", [`--net=${path}`, "sh", "-c", script, "sh", ...others])
  }
}
