import { expect, test } from "bun:test"
import { fail, IpMonitor, isLong, succeed, waitFor } from "../lab/mod.ts"
import { Cluster, type ClusterNode, paths, SlowWay, slowEndpoint } from "./mod.ts"

/** Two blocks, so that a node that needs a second one has to wait for another node's. */
const scarce = {
  prefixes: [{ prefix: "10.64.0.0/27", blockLength: 28, reserved: [] }],
  quarantineS: 2,
}

test("a node that is deleted while it lives takes its blocks back before the quarantine has ended", async () => {
  await using cluster = await Cluster.start({ nodes: 2, members: 1 })
  const [one, two] = cluster.nodes as [ClusterNode, ClusterNode]
  one.signal("SIGSTOP")
  await two.releaseNode(one.name)
  const statesOf = async () =>
    (await cluster.blockRecords()).filter(({ owner }) => owner.name === one.name).map(({ state }) => state)
  expect(await statesOf()).toEqual(["quarantined"])
  await one.addPod()
  one.signal("SIGCONT")
  await waitFor(async () => Bun.deepEquals(await statesOf(), ["owned"]), "the block to be owned again")
})

test("a node that comes back after the quarantine hands out no address of a block that it has lost, and names its containers", async () => {
  await using cluster = await Cluster.start({ nodes: 2, members: 1, pool: scarce })
  const [one, two] = cluster.nodes as [ClusterNode, ClusterNode]
  const [lost] = await one.blocks()
  const pod = await one.addPod()
  one.signal("SIGSTOP")
  await two.releaseNode(one.name)
  for (let count = 0; count < 8; count++) await two.addPod()
  await waitFor(async () => (await two.blocks()).length === 2, "the other node to take the block over")
  const epochs = (await cluster.blockRecords()).map(({ epoch, owner }) => [owner.name, epoch])
  expect(epochs.toSorted()).toEqual([
    [two.name, 1],
    [two.name, 2],
  ])
  for (let count = 0; count < 8; count++) await two.addPod() // some in the block that it has taken over: it cannot give it back
  one.signal("SIGCONT")
  await waitFor(async () => (await one.blocks()).length === 0, "the lost block to leave the file")
  const { namespace, output } = await one.tryPod()
  expect(await fail(Promise.resolve(output))).toMatchObject({ code: 11 })
  await one.host.removeContainer(namespace)
  const [named] = await waitFor(
    async () => {
      const status = await fetch("http://agent/status", { unix: one.host.file(paths.socket) })
      const found = ((await status.json()) as { lost: { prefix: string; owner: string; containers: object[] }[] }).lost
      return found.length > 0 ? found : undefined
    },
    `the status to name the lost block; the agent says:\n${one.log.join("")}`,
  )
  expect(named).toMatchObject({ prefix: lost ?? "", owner: two.name })
  expect(named?.containers).toMatchObject([{ id: pod.namespace.name, ifName: "eth0", address: pod.address }])
})

test("nodes notice a store that comes from a backup: they claim nothing, keep routes, and say again what they own, until it is accepted", async () => {
  await using cluster = await Cluster.start({ nodes: 2, members: 1 })
  const [one, two] = cluster.nodes as [ClusterNode, ClusterNode]
  const backup = await cluster.etcd.snapshot()
  for (let count = 0; count < 13; count++) await one.addPod()
  const blocks = await one.waitForBlocks(2)
  const routes = async () => (await two.host.exec("ip", ["route", "show", "proto", "73"])).stdout.trim().split("\n")
  await waitFor(async () => (await routes()).length === blocks.length, "the other node's routes to them")
  one.signal("SIGSTOP") // it cannot say again what it has
  await using changes = await IpMonitor.start(two.host, "route")
  await cluster.etcd.restore(backup, "second")
  const isStopped = (node: ClusterNode) => node.log.join("").includes("The store cannot be trusted")
  await waitFor(() => isStopped(two), "the other agent to stop")
  one.signal("SIGCONT")
  await waitFor(() => isStopped(one), "both agents to stop")
  await cluster.waitForOrder()
  expect((await changes.stop()).filter((line) => line.includes("proto 73"))).toEqual([])
  expect((await one.blocks()).sort()).toEqual(blocks.sort())
  const pods = []
  for (let count = 0; count < 12; count++) pods.push(await two.addPod())
  expect((await two.blocks()).length).toBe(1)
  for (const node of [one, two])
    await succeed(
      node.ask("ipam", "accept-store", "--config", paths.config).then((output) => ({ ...output, json: {} })),
    )
  await two.waitForBlocks(2)
  await cluster.waitForOrder()
})

/** Longer than two looks of an agent for nodes that are gone, one a minute, about. */
const twoSweepsMs = 200_000

/** A test of `npm run test:cluster` alone: it waits for minutes. */
if (isLong)
  test("a sweep that sees no node, or two of four gone, quarantines nothing; one that sees one node gone does", async () => {
    await using cluster = await Cluster.start({ nodes: 3, members: 1 })
    const [one, two, three] = cluster.nodes as [ClusterNode, ClusterNode, ClusterNode]
    const blind = await cluster.addNode(99, { type: "etcd", endpoints: [slowEndpoint] })
    await using way = await SlowWay.start(blind.host, cluster.etcd.endpoints[0] ?? "")
    blind.startAgent()
    await blind.waitForBlocks()
    const inQuarantine = async () =>
      (await cluster.blockRecords()).filter(({ state }) => state === "quarantined").map(({ owner }) => owner.name)

    await way.disturb({ delayMs: 0, loseEvery: 0, hidesNodes: true })
    for (const node of [two, three]) {
      await node.endAgent()
      await cluster.etcd.etcdctl("del", `/cni/node/${node.name}`)
    }
    const says = (node: ClusterNode, reason: string) =>
      waitFor(
        () => node.log.join("").includes(`No block is quarantined: ${reason}`),
        `${node.name} to say that ${reason}`,
        twoSweepsMs,
      )
    await Promise.all([
      says(one, "2 of 4 owners of blocks are gone, more than 10 %"),
      says(blind, "the store names no node at all"),
    ])
    expect(await inQuarantine()).toEqual([])

    three.startAgent()
    await waitFor(async () => (await inQuarantine()).length > 0, "a quarantine", twoSweepsMs)
    expect(new Set(await inQuarantine())).toEqual(new Set([two.name]))
    two.startAgent()
    await waitFor(async () => (await inQuarantine()).length === 0, "the node that came back to have its blocks again")
    await cluster.waitForOrder()
  }, 900_000)
