import { expect, test } from "bun:test"
import { Blocks } from "../agent/mod.ts"
import { Chance } from "../integration/lab/mod.ts"
import { churn } from "./cluster.ts"
import { poolOf, scatter } from "./rows/pods.ts"

test.each([1_000, 1_096])("a pool of %p addresses has them all in its blocks", (count) => {
  const [prefix] = poolOf(count).prefixes
  if (!prefix) throw new Error("the pool has no prefix")
  const blocks = [...Blocks.of(prefix).candidates("node", () => false)]
  expect(blocks.reduce((sum, block) => sum + Blocks.of(prefix).capacityOf(block), 0n)).toBe(BigInt(count))
})

test("1,000 pods come to all nodes, to each a multiple of a block's addresses, in an order of chance", () => {
  const order = scatter(new Chance(1))
  expect(order).toHaveLength(1_000)
  const perNode = Map.groupBy(order, (node) => node)
  expect([...perNode.keys()].toSorted()).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
  for (const [node, pods] of perNode) expect([node, pods.length % 8]).toEqual([node, 0])
  expect(order.slice(0, 100)).not.toEqual(order.slice(0, 100).toSorted())
})

test("of 1,000 pods each comes once and goes once, and later", () => {
  const lives = new Set<number>()
  const steps = churn(new Chance(1), 3)
  for (const { verb, id } of steps) {
    expect([id, lives.has(id)]).toEqual([id, verb === "DEL"])
    if (verb === "ADD") lives.add(id)
    else lives.delete(id)
  }
  expect([steps.length, lives.size]).toEqual([2_000, 0])
})
