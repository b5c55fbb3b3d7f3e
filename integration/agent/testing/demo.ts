/**
 * A demonstration with a Kubernetes cluster in namespaces: a fake API server and three nodes, each with the agent, a
 * bridge and host-local. It shows that pods of different nodes reach each other in both families, that a Node can be
 * created again with another range, and that the routes of a deleted node disappear. It does not change this machine.
 * Needs root and a build (`npm run build`).
 *
 *   npm run demo:cluster
 */
import { runDemo } from "../../../scripts/demo/run.ts"
import { done, note, prove, title } from "../../../scripts/demo/show.ts"
import { listNamespaces, namespacePrefix, ping, waitFor } from "../../lab/mod.ts"
import { FakeClusterApi } from "./api.ts"
import { Cluster, type ClusterNode, type Pod, rangesOf } from "./cluster.ts"

async function proveReach(from: Pod, to: Pod): Promise<void> {
  for (const address of to.addresses)
    prove(await ping(from.namespace, address), `${from.addresses[address.includes(":") ? 1 : 0]} pings ${address}`)
}

async function demo(stack: AsyncDisposableStack): Promise<void> {
  title("An API server and three nodes; each Node has a range of both families")
  const start = performance.now()
  const cluster = stack.use(await Cluster.start((lan, address) => FakeClusterApi.start(lan, address)))
  const nodes: ClusterNode[] = []
  for (const number of [11, 12, 13]) nodes.push(await cluster.addNode(number))
  const [one, two, three] = nodes
  if (!one || !two || !three) throw new Error("a node is missing")
  const { output } = await one.tryPod()
  prove(output.exitCode !== 0, "ADD waits while the agent has not written the node's range (code 11)")
  for (const [at, node] of nodes.entries()) {
    node.startAgent()
    await cluster.makeNode(node, rangesOf(at + 1))
  }
  for (const [at, node] of nodes.entries()) await node.waitForRanges(rangesOf(at + 1))
  done("all nodes have their ranges", performance.now() - start)
  await waitFor(async () => (await one.routes()).length === 6, "the routes of node-11")
  note((await one.host.exec("ip", ["route", "show", "proto", "73"])).stdout.trimEnd())

  title("Pods of different nodes reach each other")
  const [first, second, third] = [await one.addPod(), await two.addPod(), await three.addPod()]
  await waitFor(async () => (await two.routes()).length === 6 && (await three.routes()).length === 6, "all routes")
  await proveReach(first, second)
  await proveReach(second, third)

  title("The API server is down")
  await cluster.api.down()
  const late = await one.addPod()
  done(`ADD on node-11 asks no server: ${late.addresses.join(" and ")}`)
  await proveReach(late, third)
  await cluster.api.up()

  title("Node node-11 is deleted and re-created with another range")
  await cluster.deleteNode(one.name)
  await cluster.makeNode(one, rangesOf(7))
  await one.waitForRanges(rangesOf(7))
  const fresh = await one.addPod()
  done(`new pods have addresses of the new range: ${fresh.addresses.join(" and ")}`)
  note((await one.ask("status")).stdout.trimEnd())
  await waitFor(async () => (await two.routes()).some((route) => route.startsWith("10.244.7.0/24")), "the new route")
  await proveReach(fresh, second)
  for (const pod of [first, late]) await one.deletePod(pod)
  await waitFor(async () => !(await one.bridgeAddresses()).includes("10.244.1.1/24"), "the former gateway to be gone")
  done("with the last pod of the former range its gateway leaves the bridge")

  title("Node node-13 leaves")
  await cluster.deleteNode(three.name)
  await waitFor(async () => (await one.routes()).length === 4, "the routes to node-13 to be gone")
  done("its routes are gone")
  note((await one.host.exec("ip", ["route", "show", "proto", "73"])).stdout.trimEnd())

  await stack.disposeAsync()
  const left = await listNamespaces(namespacePrefix(process.pid))
  prove(left.length === 0, "no namespace, process or file of the cluster is left")
}

if (import.meta.main) process.exitCode = await runDemo("npm run demo:cluster", demo)
