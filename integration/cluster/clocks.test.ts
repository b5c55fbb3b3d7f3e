import { expect, test } from "bun:test"
import { waitFor } from "../lab/mod.ts"
import { Cluster, type ClusterNode, paths } from "./mod.ts"

/** Two blocks, so that a node that needs a second one has to wait for another node's. */
const scarce = {
  prefixes: [{ prefix: "10.64.0.0/27", blockLength: 28, reserved: [] }],
  quarantineS: 3600,
}

/** A process whose wall clock shows another date; what counts on from the start of the machine is as it was. */
const onDate = (date: string) => ["env", "FAKETIME_DONT_FAKE_MONOTONIC=1", "faketime", "-m", date]

/** A machine that was suspended for some seconds besides, by a time namespace: CLOCK_BOOTTIME alone is ahead. */
const suspendedFor = (seconds: number) => ["unshare", "--time", "--boottime", String(seconds), "--fork", "--kill-child"]

/** Waits until the agent has found no block to claim or to take over, and has said so. */
async function waitForWant(node: ClusterNode): Promise<void> {
  await waitFor(() => node.log.join("").includes("has no free block for this node"), "the node to want a block")
}

/** The blocks in quarantine that an agent has noted, with the time since when it has seen them. */
async function noted(node: ClusterNode): Promise<string[]> {
  const { quarantined } = await Bun.file(node.host.file(`${paths.pools}/.agent.json`)).json()
  return Object.keys(quarantined)
}

/** Ends the agent of a node, and starts it with another clock. */
async function restart(node: ClusterNode, under: readonly string[]): Promise<void> {
  await node.endAgentUnder()
  node.log.length = 0
  node.startAgent(under)
}

test("the wall clock decides nothing: agents of 1999 and 2050 claim blocks, and no leap of it ends a quarantine; the time that a machine is suspended does", async () => {
  await using cluster = await Cluster.start({ nodes: 0, members: 1, pool: scarce })
  const one = await cluster.addNode(11)
  const two = await cluster.addNode(12)
  one.startAgent(onDate("1999-01-01 00:00:00"))
  two.startAgent(onDate("2050-01-01 00:00:00"))
  await one.waitForBlocks()
  await two.waitForBlocks()
  expect(one.log.join("")).toStartWith("1999-01-01T")
  expect(two.log.join("")).toStartWith("2050-01-01T")

  await one.endAgentUnder()
  await two.releaseNode(one.name)
  for (let count = 0; count < 8; count++) await two.addPod()
  await waitForWant(two)
  await waitFor(async () => (await noted(two)).length === 1, "the agent to note since when it has seen the quarantine")

  await restart(two, onDate("2090-01-01 00:00:00"))
  await cluster.etcd.etcdctl("del", "--prefix", "/cni/want/") // so that the agent says once more what it has found
  await waitForWant(two)
  expect((await two.blocks()).length).toBe(1)

  await restart(two, suspendedFor(7200))
  await two.waitForBlocks(2)
  await cluster.waitForOrder()
})
