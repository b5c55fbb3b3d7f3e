import { waitFor } from "../../lab/mod.ts"
import { laterVersion } from "../../release/sample.ts"
import type { Cluster } from "./cluster.ts"
import type { ClusterNode } from "./cluster-node.ts"

const intervalMs = 20_000
const limitMs = 300_000

const flush = `
  tables=$(nft list tables | awk '$3 ~ /^cni/ { print "flush", $0 }')
  [ -n "$tables" ] && echo "$tables" | nft -f -`

const directory = "/opt/cni/bin"
const install = [`${directory}/cni`, "install", "--adopt", "--bin-dir=/host/bin", "--tool-dir=/host/bin"]

/** Attacks, each on all nodes at once while tests run. An attack returns the number of affected nodes. */
const attacks: Readonly<Record<string, (cluster: Cluster) => Promise<number>>> = {
  async "the DaemonSet rolled to another build, or back, node by node"(cluster) {
    const { nodes } = cluster
    const before = await Promise.all(nodes.map(readDigests))
    const roll = (...words: string[]) => cluster.kubectl(["-n", "cni-plugins", ...words])
    const { stdout: image } = await roll("get", "daemonset", "-o", "jsonpath={..initContainers[0].image}")
    if (image.endsWith(laterVersion)) await roll("rollout", "undo", "daemonset/cni-plugins")
    else await roll("set", "image", "daemonset/cni-plugins", `*=${image.replace(/[^:]+$/, laterVersion)}`)
    await cluster.waitUntilReady("daemonset/cni-plugins", "cni-plugins")
    const after = await Promise.all(nodes.map(readDigests))
    const changed = after.filter((digests, at) => digests.isDisjointFrom(before[at] ?? digests))
    if (changed.length < nodes.length) throw new Error(`${changed.length} nodes have another build of all plugins`)
    return changed.length
  },
  "all rules of our nftables tables deleted": (cluster) => onNodes(cluster, flush),
  "the bridge deleted": (cluster) => onNodes(cluster, "ip link delete cni0"),
  "the agent killed": (cluster) => onNodes(cluster, "pkill -KILL -x cni-agent"),
  async "all plugins deleted and installed again"(cluster) {
    await onNodes(cluster, `find ${directory} -mindepth 1 -delete`)
    const reinstall = async () => {
      const { stdout } = await cluster.kubectl(["-n", "cni-plugins", "get", "pods", "-o", "name"])
      const pods = stdout.match(/\S+/g) ?? []
      const exec = (pod: string) => cluster.kubectl(["-n", "cni-plugins", "exec", pod, "-creconcile", "--", ...install])
      await Promise.all(pods.map(exec))
      return pods.length === cluster.nodes.length
    }
    await waitFor(reinstall, "the plugins to be installed again", limitMs)
    return onNodes(cluster, `${directory}/cni install --verify --bin-dir ${directory}`)
  },
  async "containerd killed"({ nodes }) {
    await Promise.all(nodes.map((node) => node.restartContainerd()))
    return nodes.length
  },
}

async function onNodes({ nodes }: Cluster, script: string): Promise<number> {
  const outputs = await Promise.all(nodes.map(({ host }) => host.tryExec("sh", ["-c", script])))
  return outputs.filter(({ exitCode }) => exitCode === 0).length
}

async function readDigests({ host }: ClusterNode): Promise<ReadonlySet<string>> {
  const { stdout } = await host.exec("sh", ["-c", `sha256sum ${directory}/*`])
  return new Set(stdout.trim().split("\n"))
}

/**
 * Starts an attack every 20 seconds until `work` ends, even while others run. Returns each attack's number of affected
 * nodes.
 */
export async function underFire(cluster: Cluster, work: Promise<unknown>): Promise<Map<string, number>> {
  let isOver = false
  const over = work.catch(() => undefined).finally(() => (isOver = true))
  const hits = new Map<string, number>()
  const started: Promise<void>[] = []
  const start = async (what: string, attack: (cluster: Cluster) => Promise<number>) => {
    const hit = await attack(cluster)
    hits.set(what, (hits.get(what) ?? 0) + hit)
  }
  for (;;)
    for (const [what, attack] of Object.entries(attacks)) {
      await Promise.race([over, Bun.sleep(intervalMs)])
      if (isOver) {
        await Promise.all(started)
        return hits
      }
      const attacked = start(what, attack)
      attacked.catch(() => undefined)
      started.push(attacked)
    }
}
