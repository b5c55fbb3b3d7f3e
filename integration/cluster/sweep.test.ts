import { expect, test } from "bun:test"
import { isLong, waitFor } from "../lab/mod.ts"
import { Cluster, type ClusterNode, SlowWay, slowEndpoint } from "./mod.ts"

/** Longer than two looks of an agent for nodes that are gone, one a minute, about. */
const twoSweepsMs = 200_000

/** In `npm run test:cluster` alone: it waits for minutes. */
test.if(isLong)(
  "a sweep that sees no node, or two of four gone, quarantines nothing; one that sees one node gone does",
  async () => {
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
  },
  900_000,
)
