import { afterAll, beforeAll, expect, test } from "bun:test"
import { readFile } from "node:fs/promises"
import { type HostNamespace, type PluginOutput, ping, waitFor } from "../../lab/mod.ts"
import type { ClusterApi } from "./api.ts"
import { Cluster, type ClusterNode, networkOf, type Pod, rangesOf } from "./cluster.ts"

/**
 * Defines the tests of a cluster whose API server `startApi` starts. Each test continues from the state that the
 * previous test left.
 */
export function testCluster(startApi: (lan: HostNamespace, address: string) => Promise<ClusterApi>): void {
  let cluster: Cluster
  let one: ClusterNode
  let two: ClusterNode
  beforeAll(async () => {
    cluster = await Cluster.start(startApi)
    one = await cluster.addNode(11)
    two = await cluster.addNode(12)
  })
  afterAll(() => cluster?.[Symbol.asyncDispose]())

  const routesTo = (node: ClusterNode, ranges: readonly string[]) =>
    ranges.map((range, at) => `${range} via ${node.addresses[at]}`)
  const hasRoutes = (node: ClusterNode, own: readonly string[], ...others: string[][]) =>
    waitFor(
      async () =>
        Bun.deepEquals(await node.routes(), [...own.map((range) => `unreachable ${range}`), ...others.flat()].sort()),
      `the routes of ${node.name}; its agent says:\n${node.log.slice(-1500)}`,
    )
  const reach = async (from: Pod, to: Pod) => {
    for (const address of to.addresses) expect(await ping(from.namespace, address)).toBe(true)
  }

  test("on a fresh node ADD is code 11 and STATUS code 50 before the agent's first pass; then a container gets an address of each family", async () => {
    const { attachment, output, namespace } = await one.tryPod()
    expect(errorOf(output)).toMatchObject({ code: 11 })
    expect(JSON.stringify(errorOf(await attachment.run("STATUS")))).toMatch(
      /"code":50,.*it does not exist; .*cni-agent run/,
    )
    await one.deletePod({ attachment, namespace })
    one.startAgent()
    // First kubelet has not registered the node, then the controller has not assigned a range to it.
    await waitFor(() => Promise.resolve(one.log.includes("no ")), "a log line")
    await cluster.makeNode(one, [])
    await one.waitForRanges([])
    const waiting = await one.tryPod()
    expect(errorOf(waiting.output)).toMatchObject({
      code: 11,
      msg: expect.stringContaining('node "node-11" has no range yet'),
    })
    await one.deletePod(waiting)
    await cluster.deleteNode("node-11")
    await cluster.makeNode(one, rangesOf(1))
    await one.waitForRanges(rangesOf(1))
    const pod = await one.addPod()
    expect(pod.addresses).toEqual(["10.244.1.2", "fd00:10:244:1::2"])
    await one.deletePod(pod)
  })

  test("pods of different nodes reach each other in both families, and a packet to a free address of the own range is answered", async () => {
    await cluster.makeNode(two, rangesOf(2))
    two.startAgent()
    await two.waitForRanges(rangesOf(2))
    await hasRoutes(one, rangesOf(1), routesTo(two, rangesOf(2)))
    await hasRoutes(two, rangesOf(2), routesTo(one, rangesOf(1)))
    const [first, second] = [await one.addPod(), await two.addPod()]
    await reach(first, second)
    await reach(second, first)
    await one.deletePod(first)
    await two.deletePod(second)
    await one.host.exec("ip", ["link", "delete", "cni0"])
    const { stdout } = await one.host.tryExec("ip", ["route", "get", "10.244.1.77"])
    expect(stdout).not.toContain("via")
  })

  test("while the API server is down containers get addresses and reach each other; a change is made when it is back, also after its history is gone", async () => {
    await cluster.api.down()
    await waitFor(async () => (await one.status()).fault !== undefined, "the fault in the agent's status")
    const [first, second] = [await one.addPod(), await two.addPod()]
    await reach(first, second)
    await one.endAgent("SIGKILL") // the new agent finds the file and the routes of the old one
    one.startAgent()
    await waitFor(() => Promise.resolve(one.log.split("follows the Nodes").length > 2), "the second agent")
    await hasRoutes(one, rangesOf(1), routesTo(two, rangesOf(2)))
    const third = await one.addPod()
    await cluster.api.up()
    await waitFor(async () => (await one.status()).nodes === 2, "the agent to follow again")
    await cluster.api.forget()
    const three = { name: "node-13", addresses: ["10.99.0.13", "fd99::13"] }
    await waitFor(async () => (await cluster.api.ask("GET", "/api/v1/nodes")).status === 200, "the API server")
    await cluster.makeNode(three, rangesOf(3))
    await hasRoutes(one, rangesOf(1), routesTo(two, rangesOf(2)), [
      `${rangesOf(3)[0]} via 10.99.0.13`,
      `${rangesOf(3)[1]} via fd99::13`,
    ])
    await cluster.deleteNode("node-13")
    await hasRoutes(one, rangesOf(1), routesTo(two, rangesOf(2)))
    for (const pod of [first, third]) await one.deletePod(pod)
    await two.deletePod(second)
  })

  test("a Node is re-created with another range: no address is given twice, and the former range is reached at its new node", async () => {
    const old = await one.addPod()
    await cluster.deleteNode("node-11")
    await one.waitForRanges([])
    expect(errorOf((await one.tryPod()).output)).toMatchObject({ code: 11 })
    await cluster.makeNode(one, rangesOf(7))
    await one.waitForRanges(rangesOf(7))
    const fresh = await one.addPod()
    expect(fresh.addresses[0]).toStartWith("10.244.7.")
    // The former range is assigned to another node while its container still runs.
    await cluster.deleteNode("node-12")
    await cluster.makeNode(two, rangesOf(1))
    await two.waitForRanges(rangesOf(1))
    const moved = await two.addPod()
    const { network } = await one.status()
    expect(network.former).toEqual(rangesOf(1))
    expect(network.strays.map(({ address, container }) => [address, container])).toEqual(
      old.addresses.map((address) => [address, old.namespace.name]),
    )
    expect((await one.ask("status")).stdout).toContain(
      `Outside the range: ${old.addresses[0]} of ${old.namespace.name}/eth0`,
    )
    expect(await one.bridgeAddresses()).toContain("10.244.1.1/24")
    // After the last container of the former range, the agent also deletes its gateway addresses of both families.
    await one.deletePod(old)
    await waitFor(
      async () => (await one.bridgeAddresses()).every((text) => text.includes("244.7.") || text.includes(":7::")),
      "the former gateway to be gone",
    )
    expect((await one.rangesFile())?.former).toEqual([])
    await hasRoutes(one, rangesOf(7), routesTo(two, rangesOf(1)))
    await reach(fresh, moved)
    await reach(moved, fresh)
    await one.deletePod(fresh)
    await two.deletePod(moved)
  })

  test("another machine takes the name of a node that has left: it gets the range of the new Node, and the others route to it", async () => {
    await cluster.deleteNode("node-12")
    await hasRoutes(one, rangesOf(7))
    await two.endAgent()
    const other = await cluster.addNode(22, "node-12")
    other.startAgent()
    await cluster.makeNode(other, rangesOf(9))
    await other.waitForRanges(rangesOf(9))
    await hasRoutes(one, rangesOf(7), routesTo(other, rangesOf(9)))
    const [here, there] = [await one.addPod(), await other.addPod()]
    await reach(here, there)
    await one.deletePod(here)
    await other.deletePod(there)
    await other.endAgent()
    await cluster.deleteNode("node-12")
  })

  test("of two machines with one name the one whose kubelet has registered has the range", async () => {
    const bootId = (await readFile("/proc/sys/kernel/random/boot_id", "utf8")).trim()
    await cluster.registerBoot("node-11", "00000000-0000-0000-0000-000000000001")
    await one.waitForRanges([])
    expect(errorOf((await one.tryPod()).output)).toMatchObject({ code: 11 })
    expect((await one.status()).network.fault).toContain("another boot or machine")
    await cluster.registerBoot("node-11", bootId)
    await one.waitForRanges(rangesOf(7))
  })

  test("a network of another name gets the range once no container of the former one has an address of it", async () => {
    const old = await one.addPod()
    await one.endAgent()
    one.startAgent("other")
    await waitFor(
      async () =>
        (await one.status().catch(() => undefined))?.network.fault?.includes('containers of network "pods" use'),
      "the reason",
    )
    expect(await one.rangesFile("pods")).toBeUndefined()
    expect(errorOf((await one.tryPod(networkOf("other"))).output)).toMatchObject({ code: 11 })
    await one.deletePod(old)
    await one.waitForRanges(rangesOf(7), "other")
    const fresh = await one.addPod(networkOf("other"))
    expect(fresh.addresses[0]).toStartWith("10.244.7.")
    await one.deletePod(fresh)
    await one.endAgent()
  })
}

function errorOf({ json }: PluginOutput): unknown {
  return json
}
