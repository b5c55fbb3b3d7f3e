import { afterEach, expect, test } from "bun:test"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { Status } from "../../agent/mod.ts"
import { askAgentNow, differenceOf, type NodePool, type NodePools } from "../node/agent.ts"
import { checkPools } from "./networks.ts"
import { checkClusterPools } from "./pools.ts"
import { attachmentOf, patientOf, told } from "./testing/patients.ts"

const set = { prefix: "10.64.0.0/16", blockLength: 26, blocks: ["10.64.3.0/26"], draining: [], reserved: [] }
const file = { version: 1, pool: "pods", epoch: 1, sets: [set], routes: [], fixed: {} }
const path = "/var/lib/cni/pools/pods.json"
const pool = { network: "pods", name: "pods", path, file } as unknown as NodePool
const prefix = {
  prefix: "10.64.0.0/16",
  blocks: [{ prefix: "10.64.3.0/26", state: "owned" as const, used: 5 }],
  used: 5,
  free: "56",
  cluster: { free: "1000", owned: 24, quarantined: 0 },
}
const status: Status = {
  node: { name: "node-1", uid: "1", machineId: "1" },
  store: { name: "etcd at https://192.0.2.1:2379", requests: 1, writes: 1, watchEvents: 1 },
  pools: [{ name: "pods", network: "pods", file: path, prefixes: [prefix], fixed: {} }],
  lost: [],
}
const withPrefix = (more: object): Partial<Status> => ({
  pools: [{ name: "pods", network: "pods", file: path, prefixes: [{ ...prefix, ...more }], fixed: {} }],
})

/** What is found of a node with one pool, changed by the arguments. */
function found(changes: Partial<Status>, pools: readonly object[] = [pool], agent?: NodePools["agent"], more = {}) {
  const read = { pools, socket: "/run/cni-agent/agent.sock", agent: agent ?? { status: { ...status, ...changes } } }
  return told(checkClusterPools(patientOf({ pools: read, ...more } as never)))
}
const lines = (...args: Parameters<typeof found>) =>
  found(...args).map((text) => text.split("\n").slice(0, 2).join(": "))

test("a healthy node, and one without pools, has no finding", () => {
  expect(found({})).toEqual([])
  expect(told(checkClusterPools(patientOf({})))).toEqual([])
  const small = withPrefix({ cluster: { free: "0", owned: 4, quarantined: 0 } })
  expect(found(small)).toEqual([])
})

test("a pool's file that host-local refuses is told with the reason, and what the agent says of it", () => {
  const missing = { ...pool, file: undefined, fault: `there is no "${path}"` }
  expect(found({}, [missing])).toEqual([
    `error pool-file (pods)
pool "pods" gives no address here: there is no "${path}"
every ADD of the network ends with code 11; containers that are attached keep their addresses
have the agent write it again, which begins with the blocks that the store says are this node's: systemctl restart cni-agent`,
  ])
  const torn = { ...pool, file: undefined, fault: `"${path}" is torn` }
  expect(found({}, [torn])[0]).toContain(`mv ${path} ${path}.bad; have the agent write it again`)
})

test("a file that has other blocks than the store names them, and what keeps the agent from writing it", () => {
  const missing = { ...pool, difference: { missing: ["10.64.9.0/26"], extra: [] } }
  expect(lines({}, [missing])).toEqual([
    `warning pool-file-old (pods): "${path}" is not what the agent says: it lacks 10.64.9.0/26`,
  ])
  const full = [{ name: "pods", network: "pods", file: path, fault: "the disk is full", prefixes: [prefix], fixed: {} }]
  expect(lines({ pools: full }, [missing])[0]).toEndWith("it lacks 10.64.9.0/26 (the disk is full)")
  const extra = { ...pool, difference: { missing: [], extra: ["10.64.3.0/26"] } }
  expect(lines({}, [extra])).toEqual([
    `error pool-file-old (pods): "${path}" is not what the agent says: it has 10.64.3.0/26, which is not this node's`,
  ])
})

test("what only the store has, or only the file, is a difference, unless the agent has not heard of all records or does not believe them", () => {
  const recorded = ["10.64.3.0/26"]
  const answer = (more: object, store = status.store) => ({ status: { ...status, ...withPrefix(more), store } })
  expect(differenceOf(pool, answer({ recorded }))).toBeUndefined()
  const further = answer({ recorded: [...recorded, "10.64.9.0/26"] })
  expect(differenceOf(pool, further)).toEqual({ missing: ["10.64.9.0/26"], extra: [] })
  expect(differenceOf(pool, answer({ recorded: [] }))).toEqual({ missing: [], extra: recorded })
  expect(differenceOf(pool, answer({}))).toBeUndefined()
  expect(differenceOf(pool, answer({ recorded: [] }, { ...status.store, stopped: "a backup" }))).toBeUndefined()
  expect(differenceOf(pool, { reason: "no process listens" })).toBeUndefined()
})

test("an agent that does not answer, a store that is stopped or out of reach, a pool that the agent does not know", () => {
  expect(lines({}, [pool], { reason: 'no process listens at "/run/cni-agent/agent.sock"' })).toEqual([
    'error agent-dead: the agent of this node does not answer: no process listens at "/run/cni-agent/agent.sock"; networks take addresses from pool "pods"',
  ])
  const store = { ...status.store, stopped: "its revision went from 9 to 4" }
  expect(lines({ store })).toEqual([
    "error store-stopped: the agent neither claims nor gives back blocks: its revision went from 9 to 4",
  ])
  expect(lines({ store: { ...status.store, fault: "timeout" } })).toEqual([
    "warning store-unreachable: the agent does not reach etcd at https://192.0.2.1:2379: timeout",
  ])
  expect(lines({ pools: [] })).toEqual([
    'error pool-unknown (pods): network "pods" takes addresses from pool "pods", which the agent does not know',
  ])
  const { cluster: _, ...ofFile } = prefix
  const gone = {
    name: "pods",
    network: "pods",
    file: path,
    fault: "the store has no such pool",
    prefixes: [ofFile],
    fixed: {},
  }
  expect(lines({ pools: [gone] })).toEqual([
    'error pool-unknown (pods): network "pods" takes addresses from pool "pods", which the agent does not know: the store has no such pool',
  ])
})

test("a pool of which the agent knows its file alone, since the store was down when it started, is no finding", () => {
  const { cluster: _, ...ofFile } = prefix
  const pools = [{ name: "pods", network: "pods", file: path, prefixes: [ofFile], fixed: {} }]
  const store = { ...status.store, fault: "timeout" }
  expect(lines({ pools, store }).filter((line) => !line.includes("store-unreachable"))).toEqual([])
})

test("a block that another node owns now names the containers, and the command for their pods", () => {
  const containers = [{ id: "c1", ifName: "eth0", address: "10.64.3.7" }]
  const lost = [{ pool: "pods", prefix: "10.64.3.0/26", owner: "node-2", containers }]
  const pod = { namespace: "shop", name: "web-1" }
  const attachments = [attachmentOf({ network: "pods", containerId: "c1", ifName: "eth0", pod } as never)]
  const [text = ""] = found({ lost }, [pool], undefined, { attachments })
  expect(text).toContain("error lost-block")
  expect(text).toContain(`block 10.64.3.0/26 of pool "pods" is node "node-2"'s now`)
  expect(text).toContain("kubectl delete pod --namespace shop web-1")
})

test("a pool of which the cluster has nearly no block, or none and the node nearly no address", () => {
  expect(lines(withPrefix({ cluster: { free: "2", owned: 17, quarantined: 1 } }))[0]).toBe(
    'warning cluster-pool-low (pods): 2 of 20 blocks of 10.64.0.0/16 of pool "pods" are free in the cluster: 17 are owned, 1 in quarantine',
  )
  const none = { free: "0", owned: 20, quarantined: 0 }
  expect(lines(withPrefix({ used: 56, free: "5", cluster: none }))[0]).toBe(
    'warning cluster-pool-low (pods): no block of 10.64.0.0/16 of pool "pods" is free in the cluster, and this node has 5 of 61 addresses left',
  )
  expect(lines(withPrefix({ used: 61, free: "0", cluster: none }))[0]).toMatch(/^error cluster-pool-full/)
})

test("blocks of nodes that are gone are counted", () => {
  expect(lines(withPrefix({ cluster: { free: "1000", owned: 23, quarantined: 1 } }))).toEqual([
    'warning blocks-of-gone-nodes (pods): 1 block of 10.64.0.0/16 of pool "pods" is in quarantine: the nodes are gone',
  ])
})

test("that the node's own blocks are nearly full is told while no agent claims more", () => {
  const ranges = { ranges: "10.64.3.2-10.64.3.62", used: 58, reclaimable: 0, total: 61n }
  const stores = [{ network: "pods", rangeSets: [ranges] }]
  const pools = { pools: [pool], socket: "", agent: { status } as NodePools["agent"] }
  expect(checkPools(patientOf({ stores, pools } as never))).toEqual([])
  const dead = { ...pools, agent: { reason: "it is not there" } }
  expect(told(checkPools(patientOf({ stores, pools: dead } as never)))).toEqual([
    `warning pool-nearly-full (pods)
58 of 61 addresses of 10.64.3.2-10.64.3.62 are used (95 %)
containers get none when it is full
start the agent, which claims further blocks of pool "pods": cni ipam ls pods shows who holds the addresses`,
  ])
})

const directories: string[] = []
afterEach(() => {
  for (const directory of directories.splice(0)) rmSync(directory, { recursive: true })
})
function temporarySocket(): string {
  const directory = mkdtempSync(join(tmpdir(), "cni-agent-"))
  directories.push(directory)
  return join(directory, "agent.sock")
}

test("the agent is asked by its socket; what keeps it from answering is a reason in words", async () => {
  const socket = temporarySocket()
  expect(askAgentNow(socket)).toEqual({ reason: `there is no "${socket}"` })
  // The question blocks this thread: the agent is another process.
  const code = `Bun.serve({ unix: ${JSON.stringify(socket)}, fetch: () => Response.json({ pools: [] }) }); console.log("up")`
  const agent = Bun.spawn([process.execPath, "-e", code], { stdout: "pipe" })
  await agent.stdout.getReader().read()
  expect(askAgentNow(socket)).toEqual({ status: { pools: [] } } as never)
  agent.kill("SIGKILL")
  await agent.exited
  expect(askAgentNow(socket)).toEqual({ reason: `no process listens at "${socket}"` })
  const plain = temporarySocket()
  writeFileSync(plain, "")
  expect(askAgentNow(plain)).toHaveProperty("reason")
})
