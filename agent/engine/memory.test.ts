import { expect, test } from "bun:test"
import { TestClock, TestNode } from "../testing/world.ts"
import { LOST, MemoryFile } from "./memory.ts"

const isNot = () => false

/** The memory of a node's agent, and each content that was written. */
function open(node = new TestNode("a")) {
  const written: unknown[] = []
  const clock = new TestClock()
  const write = node.writeMemory.bind(node)
  node.writeMemory = (memory) => {
    write(memory)
    written.push(memory.epochs)
  }
  const store = undefined as never
  const memory = new MemoryFile({ store, clock, node, randomHex: () => "", log: () => {} })
  return { node, memory, written }
}

test("the memory is written when it changes, and only then", () => {
  const { node, memory, written } = open()
  memory.setEpoch("pods/10.64.0.0/28", 1, 0n)
  memory.setEpoch("pods/10.64.0.0/28", 1, 0n)
  memory.keepEpochs(() => true, isNot)
  expect(written).toEqual([{ "pods/10.64.0.0/28": 1 }])
  const again = open(node)
  again.memory.keepEpochs(() => true, isNot)
  expect(again.written).toEqual([])
})

test("a write that failed after the disk had it is undone by the next change back", () => {
  const { node, memory } = open()
  memory.setEpoch("pods/10.64.0.0/28", 1, 0n)
  node.step = (what) => {
    if (what.endsWith(": done")) throw new Error("fsync of the directory")
  }
  expect(() => memory.setEpoch("pods/10.64.0.16/28", 1, 0n)).toThrow("fsync of the directory")
  node.step = () => {}
  expect(node.memory?.epochs).toEqual({ "pods/10.64.0.0/28": 1, "pods/10.64.0.16/28": 1 })
  memory.keepEpochs(() => true, isNot)
  expect(node.memory?.epochs).toEqual({ "pods/10.64.0.0/28": 1 })
  expect(memory.content.epochs).toEqual({ "pods/10.64.0.0/28": 1 })
})

test("epochs go with the blocks that they are of; that a block was lost is remembered while it has a record", () => {
  const { memory } = open()
  memory.setEpoch("pods/10.64.0.0/28", 3, 0n)
  memory.setEpoch("pods/10.64.0.16/28", LOST, 0n)
  memory.keepEpochs(isNot, () => true)
  expect(memory.content.epochs).toEqual({ "pods/10.64.0.16/28": LOST })
  memory.keepEpochs(isNot, isNot)
  expect(memory.content.epochs).toEqual({})
})
