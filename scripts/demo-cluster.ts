/**
 * A whole cluster in namespaces: three members of Debian's etcd, and three nodes, each with the agent, a bridge and a pool. Shows that pods of
 * different nodes reach each other, that ADD needs no store, and that nothing is left. Touches nothing of this machine. Needs root and
 * a build (`npm run build`).
 *
 *   npm run demo:cluster
 */
import { Cluster, Referee } from "../integration/cluster/mod.ts"
import { listNamespaces, namespacePrefix, ping, waitFor } from "../integration/lab/mod.ts"
import { done, note, prove, title } from "./demo/show.ts"

async function demo(stack: AsyncDisposableStack): Promise<void> {
  title("Three members of etcd and three nodes start")
  const start = performance.now()
  const cluster = stack.use(await Cluster.start({ nodes: 3 }))
  const referee = stack.use(await Referee.start())
  done('all nodes have a block of pool "pods"', performance.now() - start)
  for (const node of cluster.nodes) note(`${node.name}, ${node.address}: ${(await node.blocks()).join(" ")}`)

  title("Pods of different nodes reach each other by routes that the agents keep")
  const [first, second, third] = await cluster.addPods(1)
  const [one, two, three] = cluster.nodes
  if (!first || !second || !third || !one || !two || !three) throw new Error("a node is missing")
  prove(
    await ping(first.namespace, second.address),
    `${first.address} on ${one.name} pings ${second.address} on ${two.name}`,
  )
  prove(
    await ping(second.namespace, third.address),
    `${second.address} on ${two.name} pings ${third.address} on ${three.name}`,
  )
  note((await one.host.exec("ip", ["route", "show", "proto", "73"])).stdout.trimEnd())

  title("The leader of etcd is killed")
  const leader = await cluster.etcd.leader()
  await leader.kill()
  const { namespace, address } = await one.addPod()
  done(`ADD on ${one.name} without it: ${address}`)
  prove(await ping(namespace, third.address), `${address} pings ${third.address} on ${three.name}`)
  await leader.start()

  title("A node goes")
  await three.endAgent()
  const { stdout } = await one.ask("ipam", "release-node", three.name, "--config", "/run/cni/agent.json")
  note(stdout.trimEnd())
  await waitFor(async () => {
    const ofThree = (await cluster.blockRecords()).filter(({ owner }) => owner.name === three.name)
    return ofThree.length > 0 && ofThree.every(({ state }) => state === "quarantined")
  }, `the blocks of ${three.name} to be in quarantine`)
  done(`its blocks are in quarantine: no node uses them for as long as its pods may run`)
  note((await one.ask("ipam", "blocks", "--config", "/run/cni/agent.json")).stdout.trimEnd())

  title("All leave")
  const { twice, looks, addresses } = await referee.end()
  prove(twice.length === 0, `no address was in two pods at one time: ${looks} looks at up to ${addresses} addresses`)
}

async function main(): Promise<number> {
  if (process.getuid?.() !== 0) {
    console.error("The demo makes network namespaces, which needs root: run `sudo npm run demo:cluster`")
    return 1
  }
  const stack = new AsyncDisposableStack()
  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    process.once(signal, () => {
      console.error("\nInterrupted; cleaning up")
      stack.disposeAsync().finally(() => process.exit(130))
    })
  }
  try {
    await demo(stack)
    await stack.disposeAsync()
    const left = await listNamespaces(namespacePrefix(process.pid))
    prove(left.length === 0, "no namespace, process or file of the cluster is left")
    return 0
  } catch (error) {
    if (!stack.disposed) console.error(`\n${error instanceof Error ? error.message : error}`)
    return 1
  } finally {
    await stack.disposeAsync()
  }
}

if (import.meta.main) process.exitCode = await main()
