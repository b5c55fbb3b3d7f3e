import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { extent, waitFor } from "../lab/mod.ts"
import { Cluster, type ClusterNode, poolName, SlowWay, slowEndpoint } from "./mod.ts"

/** A system call, by its name, and how often it was made before. */
type Point = readonly [call: string, times: number]

/** The calls by which an agent changes the store and its files, those of a start included: so many of each, and in `npm test` one of `quick`. */
function points(each: Readonly<Record<string, number>>, quick: number): Point[] {
  const all = Object.entries(each).flatMap(([call, most]) =>
    Array.from({ length: most }, (_, at): Point => [call, at + 1]),
  )
  const step = extent(quick, 1)
  return all.filter((_, at) => at % step === 0)
}

let cluster: Cluster
let number = 20

beforeAll(async () => {
  cluster = await Cluster.start({ nodes: 1, members: 1 })
})

afterAll(() => cluster?.[Symbol.asyncDispose]())

/** Starts the agent so that it is killed when it makes a call for the n-th time. */
function startKilled(node: ClusterNode, [call, times]: Point): void {
  const inject = `inject=${call}:signal=SIGKILL:when=${times}`
  node.startAgent(["strace", "-f", "-qqq", "-o", "/dev/null", "-e", `trace=${call}`, "-e", inject])
}

/**
 * After a kill: the file has no block that the node does not own, at each point of the kill. The agent starts again, and all is in
 * order, with at most one block more than are needed.
 */
async function expectMended(node: ClusterNode, needed: number): Promise<void> {
  await node.endAgentUnder()
  expect(await cluster.foreign(node)).toEqual([])
  node.startAgent()
  await node.waitForBlocks(needed)
  await cluster.waitForOrder()
  expect((await node.blocks()).length).toBeLessThanOrEqual(needed + 1)
  await cluster.eraseNode(node) // the long form has more nodes than the pool has blocks
}

describe("the agent is killed", () => {
  test.each(points({ sendto: 18, fsync: 12, rename: 6, unlink: 6 }, 7))(
    "before %s number %d of its start and its first claim",
    async (call, times) => {
      const node = await cluster.addNode(number++)
      startKilled(node, [call, times])
      await waitFor(async () => !node.isRunning || (await node.blocks()).length > 0, "a block, or the end of the agent")
      await expectMended(node, 1)
    },
  )

  test.each(points({ sendto: 18, fsync: 12, rename: 6, unlink: 6 }, 16))(
    "before %s number %d of its start and a release",
    async (call, times) => {
      const node = await cluster.addNode(number++)
      node.startAgent()
      await node.waitForBlocks()
      const pods = []
      for (let count = 0; count < 12; count++) pods.push(await node.addPod())
      await node.waitForBlocks(2)
      for (let count = 12; count < 19; count++) pods.push(await node.addPod())
      await node.waitForBlocks(3)
      await node.endAgent("SIGTERM")
      for (const pod of pods) await node.deletePod(pod)
      startKilled(node, [call, times])
      await waitFor(
        async () => !node.isRunning || (await node.blocks()).length < 3,
        "a release, or the end of the agent",
      )
      await expectMended(node, 2)
    },
  )
})

/** A node whose requests to the store pass a `SlowWay`; without its agent. */
async function addSlowNode(): Promise<{ node: ClusterNode; way: SlowWay }> {
  const node = await cluster.addNode(number++, { type: "etcd", endpoints: [slowEndpoint] })
  return { node, way: await SlowWay.start(node.host, cluster.etcd.endpoints[0] ?? "") }
}

test("while the store has not got a claim the file has no block, also after a kill; the next agent takes the block into use", async () => {
  const { node, way } = await addSlowNode()
  await using _ = way
  const hold = () => way.disturb({ delayMs: 0, loseEvery: 0, holds: "claims" })
  await hold()
  node.startAgent()
  await waitFor(async () => (await hold()) > 0, "a claim")
  expect(await node.blocks()).toEqual([])
  await node.endAgent("SIGKILL")
  expect(await node.blocks()).toEqual([])
  await way.disturb({ delayMs: 0, loseEvery: 0 })
  const owned = (await cluster.blockRecords()).filter(({ owner }) => owner.name === node.name)
  node.startAgent()
  await node.waitForBlocks()
  expect(await node.blocks()).toEqual(owned.map(({ prefix }) => prefix))
  await cluster.waitForOrder()
  await cluster.removeNode(node)
})

test("a removal is sent when the block is in no file; one that reaches the store after its agent was killed does not remove a block that the next agent has taken into use", async () => {
  const { node, way } = await addSlowNode()
  await using _ = way
  node.startAgent()
  await node.waitForBlocks()
  const pods = []
  for (let count = 0; count < 12; count++) pods.push(await node.addPod())
  await node.waitForBlocks(2)
  for (let count = 12; count < 19; count++) pods.push(await node.addPod())
  const before = await node.waitForBlocks(3)
  const hold = () => way.disturb({ delayMs: 0, loseEvery: 0, holds: "removals" })
  await hold()
  for (const pod of pods) await node.deletePod(pod)
  await waitFor(async () => (await hold()) > 0, "the removal of a block")
  const left = await node.blocks()
  expect(left).toHaveLength(2) // the file goes before the record
  const block = before.find((each) => !left.includes(each)) ?? ""
  await node.endAgent("SIGKILL")
  for (let count = 0; count < 19; count++) await node.addPod() // the node needs the block again
  const revisions = async () => {
    const { stdout } = await cluster.etcd.etcdctl("get", `/cni/block/${poolName}/${block}`, "--write-out=json")
    const [kv] = (JSON.parse(stdout) as { kvs?: { create_revision: number; mod_revision: number }[] }).kvs ?? []
    return kv
  }
  const claimed = await revisions()
  node.startAgent()
  await waitFor(async () => (await node.blocks()).includes(block), "the block to be in the file again")
  await way.disturb({ delayMs: 0, loseEvery: 0 })
  expect((await revisions())?.create_revision).toBe(claimed?.create_revision ?? 0)
  await cluster.waitForOrder()
  await cluster.removeNode(node)
})
