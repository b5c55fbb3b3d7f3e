import { readConflist } from "../../deploy/manifests.ts"
import { mustRun, waitFor } from "../../lab/mod.ts"
import type { Cluster, ClusterOptions, Ranges } from "./cluster.ts"
import type { ClusterNode } from "./cluster-node.ts"
import { idlePods, readPods } from "./pods.ts"

const podsOfNode = 100

/** The time limit for the deletion of all pods, in milliseconds. */
const limitMs = 600_000

const goPlugins = "/usr/lib/cni"

/** One measurement, with a pod network or the host's network. */
interface Turn {
  readonly title: string
  readonly hostNetwork?: boolean
  /** The function that installs the pod network. */
  readonly network?: Pick<ClusterOptions, "install">
}

const ours: Turn = { title: "these plugins" }
const go: Turn = { title: "Go's plugins", network: { install: installGoPlugins } }
export const turns: readonly Turn[] = [ours, go, { title: "the host's network", hostNetwork: true }, ours, go]

/**
 * A script that prints everything that plugins may leave on a node, and counts equal lines. It omits kube-proxy's
 * table, because kube-proxy changes it, and empty files of host-local's index.
 */
const list = `
  {
    find /var/lib/cni /run/cni -type f ! '(' -path '*/.index/owners-*' -empty ')'
    ip -o link | awk -F: '{ print "link" $2 }'
    ls /run/netns
    nft list tables | grep -v kube-proxy | while read -r table; do nft -s list $table; done
  } | sort | uniq -c`

/** A script that prints the numbers of network namespaces and of pods' processes on a node. */
const count = "ls /run/netns | wc -l; pgrep -xc agnhost"

/** Prints CPU time in ticks: of containerd's children that have ended, and of the DaemonSet's processes. */
const measure = `
  awk '{ print $16 + $17 }' /proc/$(pgrep -ox containerd)/stat
  for pid in $(pgrep -x 'cni|cni-agent'); do awk '{ print $14 + $15 + $16 + $17 }' /proc/$pid/stat; done |
    awk '{ sum += $1 } END { print sum + 0 }'`
const ticksPerSecond = 100

const onNodes = async ({ nodes }: Cluster, script: string) =>
  (await Promise.all(nodes.map(({ host }: ClusterNode) => host.exec("sh", ["-c", script])))).map(({ stdout }) =>
    stdout.trim().split("\n"),
  )

async function processorSeconds(cluster: Cluster): Promise<[children: number, daemons: number]> {
  const ticks = await onNodes(cluster, measure)
  const sum = (at: number) => ticks.reduce((sum, ofNode) => sum + Number(ofNode[at]), 0) / ticksPerSecond
  return [sum(0), sum(1)]
}

/** Creates 100 pods on each node, then deletes them. Returns the row with the results. */
export async function runManyPods(cluster: Cluster, { title, hostNetwork = false }: Turn): Promise<string> {
  await cluster.apply(idlePods("idle"))
  await cluster.waitUntilReady("daemonset/idle")
  const [before, counted, [children, daemons]] = [
    await onNodes(cluster, list),
    await onNodes(cluster, count),
    await processorSeconds(cluster),
  ]
  const names = cluster.nodes.map(({ name }) => name)
  const began = performance.now()
  const seconds = () => Math.round((performance.now() - began) / 1000)
  const pods = names.map((nodeName) => idlePods(`many-${nodeName}`, { replicas: podsOfNode, nodeName, hostNetwork }))
  await Promise.all(pods.map((pod) => cluster.apply(pod)))
  await Promise.all(names.map((name) => cluster.waitUntilReady(`deployment/many-${name}`)))
  const ready = seconds()
  const read = (await readPods(cluster)).length
  if (!hostNetwork && read < podsOfNode * names.length) throw new Error(`Only ${read} pods have addresses`)
  const deleting = seconds()
  await cluster.kubectl(["delete", "deployments", ...names.map((name) => `many-${name}`)])
  const areGone = async () => {
    await Bun.sleep(1000) // the nodes need all processors
    return Bun.deepEquals(await onNodes(cluster, count), counted)
  }
  await waitFor(areGone, "the pods to be gone", limitMs)
  const gone = seconds() - deleting
  const [childrenAfter, daemonsAfter] = await processorSeconds(cluster)
  const findLeft = async () =>
    (await onNodes(cluster, list)).flatMap((lines, at) => lines.filter((line) => !before[at]?.includes(line)))
  // containerd repeats DEL when kubelet removes the sandboxes.
  for (const until = performance.now() + 60_000; performance.now() < until && (await findLeft()).length > 0; )
    await Bun.sleep(5000)
  const left = await findLeft()
  const spent = [childrenAfter - children, daemonsAfter - daemons].map((value) => value.toFixed(1)).join(" | ")
  console.log(`${title}: ready ${ready}, gone ${gone}, processor ${spent}; left over:\n${left.join("\n")}`)
  return `| ${title} | ${ready} | ${gone} | ${spent} | ${left.length} |`
}

/** Installs the Go plugins and static routes in place of deploy/kubernetes. `ranges` has each node's ranges. */
async function installGoPlugins({ nodes }: Cluster, ranges: Ranges): Promise<void> {
  const { plugins, cniVersions: _, ...list } = JSON.parse(await readConflist())
  const [{ ipMasqBeyond: __, ...bridge }, ...others] = plugins
  for (const node of nodes) {
    await node.host.exec("sh", ["-ec", `cp ${goPlugins}/* /opt/cni/bin`])
    for (const other of nodes)
      for (const [at, range] of (ranges.get(other.name) ?? []).entries())
        if (other !== node) await node.host.exec("ip", ["route", "add", range, "via", other.addresses[at] ?? ""])
    const ipam = { type: "host-local", ranges: ranges.get(node.name)?.map((subnet) => [{ subnet }]) }
    await node.host.write("/etc/cni/net.d/10-pods.conflist", { ...list, plugins: [{ ...bridge, ipam }, ...others] })
  }
}

export async function describeTurns(rows: readonly string[]): Promise<string> {
  const { stdout } = await mustRun(["dpkg-query", "--show", "containernetworking-plugins"])
  return `Three nodes got 100 pods each, all at once, which then were deleted. Each turn had a new cluster with one pod on each
node. Pods and images are the same in all turns. Go's plugins are Debian's package
${stdout.trim().replace("\t", " ")}. Their network has the list of deploy/kubernetes without \`ipMasqBeyond\`, with host-local
and the node's range, and static routes.

Pods are gone when no node has a process or network namespace of them. "Children of containerd" is the processor time
of the processes that containerd started and waited for: plugins and their children, and the shims' commands \`start\` and
\`delete\`. Pods in the host's network call no plugin, so the difference from these is the time of plugins. "Agent, listener"
is the processor time of the DaemonSet's two processes on all nodes. Left over are files, links, namespaces and lines of
rules that were not there before the pods, a minute later. The 256 files of the index of these plugins' host-local do not count: they
stay, and are empty.

| pods have | seconds until ready | seconds until gone | children of containerd, seconds | agent, listener, seconds | left over |
| --- | --- | --- | --- | --- | --- |
${rows.join("\n")}
`
}
