import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test"
import { extent, fail, tellFigure, waitFor } from "../lab/mod.ts"
import {
  Cluster,
  type ClusterNode,
  healNetwork,
  type Loss,
  lose,
  paths,
  poolName,
  Referee,
  SlowWay,
  slowEndpoint,
} from "./mod.ts"

/** Nodes with an agent each. */
const nodeCount = extent(3, 30)
/** Addresses of a block of /28 that a container can get: without network, gateway and broadcast. */
const perBlock = 13
/** Thirty nodes take their time to start and to end. */
const hookMs = 900_000

let cluster: Cluster
let referee: Referee

beforeAll(async () => {
  cluster = await Cluster.start({ nodes: nodeCount })
  referee = await Referee.start()
}, hookMs)

afterAll(async () => {
  await cluster?.[Symbol.asyncDispose]()
  await referee?.[Symbol.asyncDispose]()
}, hookMs)

afterEach(async () => {
  for (const node of cluster.nodes) {
    await healNetwork(node)
    node.signal("SIGCONT")
    if (!node.isRunning) node.startAgent()
  }
  await cluster.waitForOrder()
}, hookMs)

/** A node that no other test of this file disturbs for now. */
const first = () => cluster.nodes[0] as ClusterNode

/** The blocks of a node without containers, after it has given back those that it can do without. */
async function settledBlocks(node: ClusterNode): Promise<string[]> {
  const settled = async () => {
    const blocks = await node.blocks()
    return blocks.length > 0 && blocks.length <= 2 && blocks // one block has fewer than twice 8 addresses
  }
  return await waitFor(settled, `${node.name} to give back what it can do without`)
}

/** ADDs until one is refused; answers how many succeeded, and the refusal. */
async function fill(node: ClusterNode) {
  const pods = []
  for (;;) {
    const { namespace, attachment, output } = await node.tryPod()
    if (output.exitCode !== 0) {
      await node.host.removeContainer(namespace)
      return { pods, error: await fail(Promise.resolve(output)) }
    }
    pods.push({ namespace, attachment })
  }
}

/** ADDs one after another, each with its DEL; answers the processor time of the one in the middle, in words. */
async function costOfAdds(node: ClusterNode, count: number): Promise<string> {
  const costs: number[] = []
  for (let done = 0; done < count; done++) {
    const { namespace, attachment, output } = await node.tryPod()
    expect(output.json).toHaveProperty("ips")
    costs.push(output.cpuMs)
    await node.deletePod({ namespace, attachment })
  }
  return `${(costs.toSorted((a, b) => a - b)[count >> 1] ?? 0).toFixed(2)} ms`
}

describe("without a store", () => {
  test("ADD and DEL go on as before; the processor time of an ADD is a figure", async () => {
    const node = first()
    const count = extent(5, 200)
    await node.waitForBlocks()
    const up = await costOfAdds(node, count)
    for (const member of cluster.etcd.members) await member.stop()
    const down = await costOfAdds(node, count)
    for (const member of cluster.etcd.members) member.continue()
    const note = `processor time of the one in the middle: ${down}; with the store ${up}`
    await tellFigure({ what: "ADD and DEL while the store stands still", tried: count, held: count, note })
  })

  test("ADD goes on until the node's blocks are full, and then ends at once with code 11 and the reason", async () => {
    const node = first()
    const blocks = await settledBlocks(node)
    for (const member of cluster.etcd.members) await member.stop()
    const { pods, error } = await fill(node)
    expect(pods.length).toBeGreaterThanOrEqual(perBlock)
    expect(pods.length).toBeLessThanOrEqual(perBlock * blocks.length)
    expect(error.code).toBe(11)
    expect(error.msg).toContain(`Cannot use pool "${poolName}": no address of 10.64.0.0/22 is free on this node`)
    for (const member of cluster.etcd.members) member.continue()
    await waitFor(async () => (await node.blocks()).length > blocks.length, "a new block once the store is back")
    await node.addPod()
    for (const pod of pods) await node.deletePod(pod)
  })

  test("one member is killed, the leader: the nodes go on claiming blocks", async () => {
    const [node] = cluster.nodes.slice(1)
    if (!node) throw new Error("too few nodes")
    const leader = await cluster.etcd.leader()
    await leader.kill()
    const pods = await Promise.all(Array.from({ length: perBlock }, () => node.addPod()))
    await node.waitForBlocks(2)
    await leader.start()
    for (const pod of pods) await node.deletePod(pod)
  })
})

describe("a network that loses", () => {
  test.each<Loss>(["requests", "answers", "both"])("%s: no block is lost or has two owners", async (loss) => {
    const node = first()
    const blocks = await settledBlocks(node)
    await lose(node, loss)
    const pods = []
    for (let count = 0; count < perBlock * blocks.length - 2; count++) pods.push(await node.addPod())
    await healNetwork(node)
    await waitFor(async () => (await node.blocks()).length > blocks.length, "the refill to go on")
    await cluster.waitForOrder()
    for (const pod of pods) await node.deletePod(pod)
  })

  test("delay, another order, and answers that are lost after the store has done what was asked", async () => {
    const node = await cluster.addNode(99, { type: "etcd", endpoints: [slowEndpoint] })
    const [endpoint = ""] = cluster.etcd.endpoints
    await using way = await SlowWay.start(node.host, endpoint)
    await way.disturb({ delayMs: 300, loseEvery: 2 })
    node.startAgent()
    const [block] = await node.waitForBlocks()
    expect(block).toBeDefined()
    const pods = []
    for (let count = 0; count < perBlock; count++) pods.push(await node.addPod())
    await node.waitForBlocks(2)
    for (const pod of pods) await node.deletePod(pod)
    await way.disturb({ delayMs: 0, loseEvery: 0 })
    await cluster.waitForOrder()
    await cluster.removeNode(node)
  })
})

describe("a pool's file", () => {
  test("that is torn gives no address, and the agent writes it again", async () => {
    const node = first()
    const blocks = await node.blocks()
    const path = node.host.file(`${paths.pools}/${poolName}.json`)
    await node.endAgent()
    const text = await Bun.file(path).text()
    await Bun.write(path, text.slice(0, text.length / 2))
    const { namespace, output } = await node.tryPod()
    expect(await fail(Promise.resolve(output))).toMatchObject({ code: 11 })
    await node.host.removeContainer(namespace)
    node.startAgent()
    const isWhole = async () => Bun.deepEquals((await node.blocks()).sort(), blocks.sort())
    await waitFor(isWhole, `the file to have ${blocks} again`)
    await node.deletePod(await node.addPod())
  })

  test("on a full disk stays as it was, and ADD goes on", async () => {
    const node = first()
    const path = node.host.file(`${paths.pools}/${poolName}.json`)
    const blocks = await settledBlocks(node)
    const before = await Bun.file(path).text()
    await node.host.exec("mount", ["-t", "tmpfs", "-o", "size=64k", "cni-test", "/mnt"])
    await node.host.exec("cp", ["-a", `${paths.pools}/.`, "/mnt"])
    await node.host.exec("mount", ["--move", "/mnt", paths.pools])
    await node.host.tryExec("dd", ["if=/dev/zero", `of=${paths.pools}/filling`, "bs=1k"])
    const pods = []
    for (let count = 0; count < perBlock * blocks.length - 2; count++) pods.push(await node.addPod())
    expect(await Bun.file(node.host.file(`${paths.pools}/${poolName}.json`)).text()).toBe(before)
    await node.host.exec("rm", [`${paths.pools}/filling`])
    await waitFor(async () => (await node.blocks()).length > blocks.length, "a block once the disk has room")
    for (const pod of pods) await node.deletePod(pod)
  })
})

test("an agent that stood still for longer than all time-outs writes nothing old", async () => {
  const node = first()
  node.signal("SIGSTOP")
  const [other] = cluster.nodes.slice(1)
  if (!other) throw new Error("too few nodes")
  const pods = await Promise.all(Array.from({ length: perBlock }, () => other.addPod()))
  await other.waitForBlocks(2)
  await Bun.sleep(extent(1_000, 40_000))
  node.signal("SIGCONT")
  await cluster.waitForOrder()
  for (const pod of pods) await other.deletePod(pod)
})

test("in all this time no address was in two containers at one instant", async () => {
  const { twice, looks, addresses } = await referee.end()
  expect(looks).toBeGreaterThan(0)
  expect(addresses).toBeGreaterThan(perBlock)
  expect(twice).toEqual([])
})
