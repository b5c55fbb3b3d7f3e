import type { Cluster } from "./cluster.ts"

const intervalMs = 20_000

const flush = `
  tables=$(nft list tables | awk '$3 ~ /^cni/ { print "flush", $0 }')
  [ -n "$tables" ] && echo "$tables" | nft -f -`

/** What is done to all nodes at once while tests run. Each returns on how many of them it had an effect. */
const attacks: Readonly<Record<string, (cluster: Cluster) => Promise<number>>> = {
  "all rules of our nftables tables deleted": (cluster) => onNodes(cluster, flush),
  "the bridge deleted": (cluster) => onNodes(cluster, "ip link delete cni0"),
  "the agent killed": (cluster) => onNodes(cluster, "pkill -KILL -x cni-agent"),
  async "the DaemonSet restarted, which installs the plugins again"(cluster) {
    await cluster.kubectl(["-n", "cni-plugins", "rollout", "restart", "daemonset/cni-plugins"])
    return cluster.nodes.length
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

/** Attacks the cluster every 20 seconds until `work` ends. Returns how often each attack hit a node. */
export async function underFire(cluster: Cluster, work: Promise<unknown>): Promise<Map<string, number>> {
  let isOver = false
  const over = work.catch(() => undefined).finally(() => (isOver = true))
  const hits = new Map<string, number>()
  for (;;)
    for (const [what, attack] of Object.entries(attacks)) {
      await Promise.race([over, Bun.sleep(intervalMs)])
      if (isOver) return hits
      hits.set(what, (hits.get(what) ?? 0) + (await attack(cluster)))
    }
}
