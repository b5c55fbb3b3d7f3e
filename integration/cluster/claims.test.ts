import { expect, test } from "bun:test"
import { waitFor } from "../lab/mod.ts"
import { Cluster, labPool } from "./mod.ts"

/** Fewer blocks than the nodes want: each block is the first choice of several nodes. */
const small = { prefixes: [{ prefix: "10.64.0.0/27", blockLength: 30, reserved: [] }] }
const blockCount = 8

test("agents that hear of a pool at the same moment claim each of its blocks once", async () => {
  await using cluster = await Cluster.start({ nodes: 0, members: 1 })
  await cluster.forgetPools()
  for (let number = 11; number < 16; number++) (await cluster.addNode(number)).startAgent()
  const nodes = cluster.nodes
  const isKnown = async () => {
    const { stdout } = await cluster.etcd.etcdctl("get", "--prefix", "--keys-only", "/cni/node/")
    return nodes.every(({ name }) => stdout.includes(`/cni/node/${name}\n`))
  }
  await waitFor(isKnown, "all agents to have written the records of their nodes")
  await cluster.registerPool({ ...labPool, ...small })
  await waitFor(async () => (await cluster.blockRecords()).length === blockCount, "all blocks to be claimed")
  await cluster.waitForOrder()
  const listed = (await Promise.all(nodes.map((node) => node.blocks()))).flat()
  expect(listed.toSorted()).toEqual([...new Set(listed)].toSorted())
  expect(listed).toHaveLength(blockCount)
  expect(nodes.map(({ log }) => log.join("")).filter((text) => text.includes(" is lost"))).toEqual([])
})
