import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { extent, waitFor } from "../lab/mod.ts"
import { Cluster, type ClusterNode } from "./mod.ts"

/** A system call, by its name, and how often it was made before. */
type Point = readonly [call: string, times: number]

/**
 * The calls by which an agent changes the store and its files, those of a start included: so many of each, and in `npm test` one of `quick`,
 * and `always`.
 */
function points(each: Readonly<Record<string, number>>, quick: number, always?: Point): Point[] {
  const all = Object.entries(each).flatMap(([call, most]) =>
    Array.from({ length: most }, (_, at): Point => [call, at + 1]),
  )
  const step = extent(quick, 1)
  return all.filter(([call, times], at) => at % step === 0 || (call === always?.[0] && times === always[1]))
}

let cluster: Cluster
let number = 20

beforeAll(async () => {
  cluster = await Cluster.start({ nodes: 1, members: 1 })
}, 60_000)

afterAll(() => cluster?.[Symbol.asyncDispose](), 60_000)

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
  await cluster.removeNode(node)
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
    60_000,
  )

  // The third fsync is that of the file without the block, whose record must not be removed yet.
  test.each(points({ sendto: 18, fsync: 12, rename: 6, unlink: 6 }, 16, ["fsync", 3]))(
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
    60_000,
  )
})
