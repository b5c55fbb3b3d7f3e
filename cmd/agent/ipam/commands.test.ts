import { afterEach, beforeEach, expect, test } from "bun:test"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { type Block, keyOf, type Owner, openStore, type Store } from "../../../agent/mod.ts"
import { recordingTerminal } from "../../../tools/testing.ts"
import { runTool } from "../../tool.ts"
import { agentTool } from "../main.ts"

let directory: string
let store: Store
const ownerOf = (name: string): Owner => ({ name, uid: `uid-${name}`, machineId: `machine-${name}` })

beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), "cni-agent-"))
  const config = { type: "directory", path: join(directory, "store") } as const
  const socket = join(directory, "agent.sock")
  writeFileSync(join(directory, "agent.json"), JSON.stringify({ store: config, poolDir: directory, socket }))
  store = await openStore(config, {})
})
afterEach(async () => {
  await store[Symbol.asyncDispose]()
  rmSync(directory, { recursive: true })
})

/** `cni-agent ipam …` on the store of the test. */
async function ipam(...words: string[]) {
  const terminal = recordingTerminal({})
  const code = await runTool(agentTool, ["ipam", ...words, "--config", join(directory, "agent.json")], terminal)
  return { code, out: terminal.out, err: terminal.err }
}

async function own(prefix: string, node: string, state: Block["state"] = "owned", epoch = 1) {
  const block: Block = { pool: "pods", prefix, owner: ownerOf(node), nonce: "n", epoch, state }
  await store.create("block", keyOf.block(block), block)
}

const createPods = () => ipam("pool", "create", "pods", "--prefix", "10.64.0.0/24", "--route", "0.0.0.0/0")

test("pool create writes the pool with its defaults to the registry", async () => {
  expect(await createPods()).toEqual({ code: 0, out: 'Made pool "pods" for network "pods"\n', err: "" })
  const created = await ipam(
    ...["pool", "create", "lan", "--prefix", "192.0.2.0/24", "--prefix", "2001:db8::/64", "--block-length", "28"],
    ...["--block-length", "122", "--gateway", "192.0.2.1", "--gateway", "2001:db8::1", "--reserved", "192.0.2.0/28"],
    ...["--network", "storage", "--quarantine", "90m", "--routing", "host-gw", "-o", "json"],
  )
  expect(JSON.parse(created.out)).toMatchObject({ name: "lan" })
  const registry = await store.find("registry", "pools")
  expect(registry?.value.pools).toEqual({
    pods: {
      name: "pods",
      prefixes: [{ prefix: "10.64.0.0/24", blockLength: 26, reserved: [] }],
      routes: [{ dst: "0.0.0.0/0" }],
      network: "pods",
      quarantineS: 86_400,
      routing: "none",
    },
    lan: {
      name: "lan",
      prefixes: [
        { prefix: "192.0.2.0/24", blockLength: 28, gateway: "192.0.2.1", reserved: ["192.0.2.0/28"] },
        { prefix: "2001:db8::/64", blockLength: 122, gateway: "2001:db8::1", reserved: [] },
      ],
      routes: [],
      network: "storage",
      quarantineS: 5400,
      routing: "host-gw",
    },
  })
})

test("a pool that overlaps another one is refused, with both prefixes; a slip in a flag is a usage error", async () => {
  await createPods()
  expect(await ipam("pool", "create", "more", "--prefix", "10.64.0.128/25")).toEqual({
    code: 1,
    out: "",
    err: 'cni-agent ipam pool create: Cannot create pool "more": 10.64.0.128/25 overlaps with 10.64.0.0/24 of pool "pods"\n',
  })
  for (const flags of [
    [],
    ["--prefix", "10.1.0.0"],
    ["--prefix", "10.1.0.0/16", "--block-length", "x"],
    ["--prefix", "10.1.0.0/16", "--gateway", "10.2.0.1"],
    ["--prefix", "10.1.0.0/16", "--quarantine", "soon"],
    ["--prefix", "10.1.0.0/16", "--route", "default"],
    ["--prefix", "10.1.0.0/16", "--routing", "bgp"],
  ])
    expect((await ipam("pool", "create", "x", ...flags)).code).toBe(2)
})

test("pool ls and pool show count blocks that are owned, in quarantine and free", async () => {
  await createPods()
  await own("10.64.0.0/26", "node-1")
  await own("10.64.0.64/26", "node-2")
  await own("10.64.0.128/26", "node-2", "quarantined")
  expect((await ipam("pool", "ls")).out).toBe(
    [
      "POOL  PREFIX        BLOCKS  OWNED  FREE  QUARANTINED  NODES  NETWORK",
      "pods  10.64.0.0/24  /26     2      1     1            2      pods",
      "",
    ].join("\n"),
  )
  expect((await ipam("pool", "ls", "--no-headers")).out).not.toContain("POOL")
  const [shown] = JSON.parse((await ipam("pool", "ls", "-o", "json")).out)
  expect(shown.prefixes).toEqual([
    { prefix: "10.64.0.0/24", blockLength: 26, reserved: [], owned: 2, quarantined: 1, free: "1" },
  ])
  const { out } = await ipam("pool", "show", "pods")
  expect(out).toContain("10.64.0.0/24 in blocks of /26: 2 owned, 1 in quarantine, 1 free\n")
  expect(out).toContain("route 0.0.0.0/0\n")
  expect(out).toMatch(/node-2 +1 +1\n/)
  expect((await ipam("pool", "show", "none")).err).toContain('Cannot find pool "none"')
})

test("pool rm refuses while nodes own blocks, and names the nodes; without blocks the pool is gone", async () => {
  await createPods()
  await own("10.64.0.0/26", "node-1")
  await own("10.64.0.64/26", "node-2")
  const refused = await ipam("pool", "rm", "pods")
  expect(refused.code).toBe(1)
  expect(refused.err).toContain('nodes own 2 blocks of it: "node-1" 10.64.0.0/26; "node-2" 10.64.0.64/26')
  expect(refused.err).toContain("no node claims further blocks of it from now on")
  expect((await ipam("pool", "ls")).out).toEndWith('\nPool "pods" is being removed: no node claims a block of it\n')
  expect((await ipam("pool", "show", "pods")).out).toContain("  is being removed: no node claims a block of it\n")
  for (const record of await store.list("block")) await store.remove(record)
  expect(await ipam("pool", "rm", "pods")).toEqual({ code: 0, out: 'Removed pool "pods"\n', err: "" })
  expect((await store.find("registry", "pools"))?.value.pools).toEqual({})
})

test("pool create says what it has done, and keeps a pool that is being removed", async () => {
  expect((await createPods()).out).toStartWith('Made pool "pods"')
  expect((await createPods()).out).toStartWith('Nothing is to be changed in pool "pods"')
  const create = ["pool", "create", "pods", "--prefix", "10.64.0.0/24", "--quarantine"]
  expect((await ipam(...create, "1h")).out).toStartWith('Changed pool "pods"')
  await own("10.64.0.0/26", "node-1")
  expect((await ipam("pool", "rm", "pods")).code).toBe(1)
  expect((await store.find("registry", "pools"))?.value.pools.pods?.isRemoved).toBe(true)
  expect((await ipam(...create, "1h")).out).toStartWith('Changed pool "pods"')
  expect((await store.find("registry", "pools"))?.value.pools.pods?.isRemoved).toBeUndefined()
})

test("a pool of addresses that no container can have is refused", async () => {
  for (const prefix of ["224.0.0.0/8", "127.0.0.0/16", "0.0.0.0/0", "ff02::/64", "fe80::/64", "::/96"]) {
    const { code, err } = await ipam("pool", "create", "x", "--prefix", prefix)
    expect([prefix, code, err]).toEqual([prefix, 1, expect.stringContaining("which are no container's")])
  }
  expect((await ipam("pool", "create", "x", "--prefix", "64:ff9b:1::/48")).code).toBe(0)
})

test("blocks lists owner, state and epoch; what is used of another node's block is not known", async () => {
  await createPods()
  await own("10.64.0.128/26", "node-2", "quarantined", 3)
  await own("10.64.0.0/26", "node-1")
  expect((await ipam("blocks", "pods")).out).toBe(
    [
      "BLOCK           POOL  NODE    STATE        EPOCH  USED  UID",
      "10.64.0.0/26    pods  node-1  owned        1      ?     uid-node-1",
      "10.64.0.128/26  pods  node-2  quarantined  3      ?     uid-node-2",
      "",
    ].join("\n"),
  )
  await ipam("pool", "create", "lan", "--prefix", "192.0.2.0/24")
  expect((await ipam("blocks", "lan")).out).toBe("No node owns a block\n")
  expect(await ipam("blocks", "pod")).toMatchObject({
    code: 1,
    err: expect.stringContaining('Cannot find pool "pod" in directory'),
  })
})

test("ls --cluster tells nodes of the cluster from those that are gone", async () => {
  await createPods()
  await store.create("node", "node-1", { owner: ownerOf("node-1"), addresses: ["192.0.2.7"] })
  await own("10.64.0.0/26", "node-1")
  await own("10.64.0.64/26", "node-2", "quarantined")
  expect((await ipam("ls", "--cluster")).out).toBe(
    [
      "NODE    STATE   POOL  BLOCKS  QUARANTINED  ADDRESS    UID",
      "node-1  member  pods  1       0            192.0.2.7  uid-node-1",
      "node-2  gone    pods  0       1            -          uid-node-2",
      "",
    ].join("\n"),
  )
  expect((await ipam("ls")).code).toBe(2)
})

test("release-node says what it would do, quarantines, and with --now frees; another node's records stay", async () => {
  await createPods()
  for (const node of ["node-1", "node-2"]) await store.create("node", node, { owner: ownerOf(node), addresses: [] })
  await own("10.64.0.0/26", "node-1")
  await own("10.64.0.64/26", "node-2")
  const states = async () => (await store.list("block")).map(({ value }) => `${value.prefix} ${value.state}`).sort()
  const before = await states()
  const dry = await ipam("release-node", "node-1", "--dry-run")
  expect(dry.out).toBe("would remove node node-1\nwould quarantine block pods/10.64.0.0/26\n")
  expect(await states()).toEqual(before)
  expect((await ipam("release-node", "node-1")).out).toBe(dry.out.replaceAll("would ", ""))
  expect(await states()).toEqual(["10.64.0.0/26 quarantined", "10.64.0.64/26 owned"])
  expect((await store.list("node")).map(({ key }) => key)).toEqual(["node-2"])
  const now = await ipam("release-node", "node-1", "--now")
  expect(now.out).toBe("remove block pods/10.64.0.0/26\n")
  expect(now.err).toContain('containers of node "node-1" that still run have addresses that other nodes now hand out')
  expect(await states()).toEqual(["10.64.0.64/26 owned"])
  expect((await ipam("release-node", "node-7")).err).toContain("known are node-2")
})

test("a pod keeps addresses that a pool reserves; others, and those of another pod, are refused", async () => {
  await ipam(
    "pool",
    "create",
    "lan",
    "--prefix",
    "192.0.2.0/24",
    "--gateway",
    "192.0.2.1",
    "--reserved",
    "192.0.2.0/28",
  )
  await createPods()
  expect((await ipam("fixed", "set", "db/mysql-0", "192.0.2.5")).out).toBe("Pod db/mysql-0 keeps 192.0.2.5 on eth0\n")
  expect((await ipam("fixed", "ls")).out).toMatch(/db\/mysql-0 +eth0 +192\.0\.2\.5 +lan +-\n/)
  for (const [pod, address, reason] of [
    ["db/mysql-1", "192.0.2.5", "pod db/mysql-0 keeps it"],
    ["db/mysql-1", "192.0.2.99", 'pool "lan" does not reserve it'],
    ["db/mysql-1", "10.64.0.5", 'pool "pods" has no gateway'],
    ["db/mysql-1", "203.0.113.1", "no pool has it"],
  ] as const)
    expect((await ipam("fixed", "set", pod, address)).err).toContain(reason)
  await store.create("node", "node-1", { owner: ownerOf("node-1"), addresses: [] })
  await ipam("fixed", "set", "db/mysql-0", "192.0.2.5", "--node", "node-1")
  expect((await ipam("fixed", "rm", "db/mysql-0")).err).toContain('node "node-1" has 192.0.2.5: remove the pod first')
  expect((await ipam("fixed", "rm", "db/mysql-0", "--now")).code).toBe(0)
  expect(await store.list("fixed")).toEqual([])
})

test("release-node frees the fixed addresses of a node with --now alone, also when it has nothing else", async () => {
  await ipam(
    "pool",
    "create",
    "lan",
    "--prefix",
    "192.0.2.0/24",
    "--gateway",
    "192.0.2.1",
    "--reserved",
    "192.0.2.0/28",
  )
  await store.create("node", "node-1", { owner: ownerOf("node-1"), addresses: [] })
  await ipam("fixed", "set", "db/mysql-0", "192.0.2.5", "--node", "node-1")
  const kept = 'Node "node-1" keeps the fixed address of db/mysql-0/eth0: --now frees it\n'
  expect(await ipam("release-node", "node-1")).toEqual({ code: 0, out: "remove node node-1\n", err: kept })
  expect((await ipam("release-node", "node-1", "--now")).out).toBe("free fixed address db/mysql-0/eth0\n")
  const [fixed] = await store.list("fixed")
  expect(fixed?.value.holder).toBeUndefined()
})

test("accept-store without an agent removes what the node remembers of the store, and nothing else", async () => {
  const memory = {
    store: { cluster: "c", revision: "7" },
    bootId: "b",
    quarantined: {},
    epochs: { "pods/10.64.0.0/26": 2 },
  }
  writeFileSync(join(directory, ".agent.json"), JSON.stringify(memory))
  const { code, out } = await ipam("accept-store")
  expect({ code, out }).toEqual({ code: 0, out: "No agent runs; it will accept the store when it starts\n" })
  const { store: _, ...rest } = memory
  expect(await Bun.file(join(directory, ".agent.json")).json()).toEqual(rest)
})

test("a configuration that is not there is an error that names the file", async () => {
  rmSync(join(directory, "agent.json"))
  expect((await ipam("pool", "ls")).err).toContain(`Cannot read the agent's configuration "${directory}/agent.json"`)
})
