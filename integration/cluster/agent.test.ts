import { expect, test } from "bun:test"
import { stat } from "node:fs/promises"
import {
  type Block,
  keyOf,
  type Node,
  type Owner,
  openStore,
  putPool,
  type Status,
  type Store,
} from "../../agent/mod.ts"
import { mustRun, ping, TemporaryDirectory, waitFor } from "../lab/mod.ts"
import { AgentHost, makeLan, pods } from "./agent-host.ts"

/** Hosts 1 to `count` on one link, and their store with the pool. */
async function makeCluster(count: number, keys: object = {}) {
  const stack = new AsyncDisposableStack()
  const directory = stack.use(await TemporaryDirectory.create("cni-cluster"))
  const store = stack.use(await openStore({ type: "directory", path: directory.path }, {}))
  await putPool(store, pods)
  const lan = stack.use(await makeLan())
  const hosts: AgentHost[] = []
  for (let number = 1; number <= count; number++)
    hosts.push(stack.use(await AgentHost.create(lan, number, directory.path, keys)))
  return { hosts, store, directory: directory.path, lan, [Symbol.asyncDispose]: () => stack.disposeAsync() }
}

/** Waits until a host has exactly these routes of the agent. */
async function expectRoutes(host: AgentHost, ...wanted: string[]): Promise<void> {
  const sorted = wanted.toSorted()
  let found: string[] = []
  const isSo = async () => {
    found = await host.routes()
    return Bun.deepEquals(found, sorted)
  }
  await waitFor(isSo, `the routes of ${host.name}`).catch(() => expect(found).toEqual(sorted))
}

async function statusOf(host: AgentHost): Promise<Status> {
  return JSON.parse(await host.ask("/status"))
}

/** Waits for a fault of the routes in the status. */
async function expectFaults(host: AgentHost, ...faults: string[]): Promise<void> {
  let found: readonly string[] | undefined
  const isSo = async () => {
    found = (await statusOf(host)).routes?.faults
    return Bun.deepEquals(found?.toSorted(), faults.toSorted())
  }
  await waitFor(isSo, "the faults in the status").catch(() => expect(found).toEqual(faults))
}

/** A node that exists as records alone. */
async function pretend(store: Store, name: string, addresses: string[], ...prefixes: string[]): Promise<Owner> {
  const owner: Owner = { name, uid: name, machineId: name }
  const node: Node = { owner, addresses }
  await store.create("node", keyOf.node(node), node)
  for (const prefix of prefixes) {
    const block: Block = { pool: "pods", prefix, owner, nonce: name, epoch: 1, state: "owned" }
    await store.create("block", keyOf.block(block), block)
  }
  return owner
}

test("containers of three nodes reach each other, by bridge and by ptp, in both families", async () => {
  await using cluster = await makeCluster(3)
  const [first, second, third] = cluster.hosts as [AgentHost, AgentHost, AgentHost]
  await first.host.exec("ip", ["route", "add", "198.51.100.0/24", "via", "192.0.2.2", "proto", "static"])
  const before = await first.host.json<object[]>("ip", ["-j", "route", "show", "proto", "static"])
  await Promise.all(cluster.hosts.map((host) => host.start()))
  await expectRoutes(first, ...(await second.routesHere()), ...(await third.routesHere()))
  await expectRoutes(third, ...(await first.routesHere()), ...(await second.routesHere()))
  const containers = [await first.addPod("bridge"), await second.addPod("bridge"), await third.addPod("ptp")]
  for (const from of containers) {
    expect(from.addresses).toHaveLength(2)
    for (const to of containers.filter((one) => one !== from))
      for (const address of to.addresses)
        expect([address, await ping(from.namespace, address)]).toEqual([address, true])
  }
  expect(await first.host.json<object[]>("ip", ["-j", "route", "show", "proto", "static"])).toEqual(before)
  expect(await first.routes()).toHaveLength(4)
})

test("routes stay when the agent is killed or ends, and come back when another program removes them", async () => {
  await using cluster = await makeCluster(2)
  const [first, second] = cluster.hosts as [AgentHost, AgentHost]
  await Promise.all(cluster.hosts.map((host) => host.start()))
  const wanted = await second.routesHere()
  await expectRoutes(first, ...wanted)
  const [prefix = ""] = (wanted[0] ?? "").split(" ")
  await first.host.exec("ip", ["route", "del", prefix])
  await expectRoutes(first, ...wanted)
  await first.host.exec("ip", ["-6", "route", "flush", "proto", "73"])
  await expectRoutes(first, ...wanted)

  await first.signal("SIGKILL")
  expect(await first.routes()).toEqual(wanted.toSorted())
  await first.host.exec("ip", ["route", "del", prefix])
  const blocks = await first.blocks()
  await first.start()
  await expectRoutes(first, ...wanted)
  expect(await first.blocks()).toEqual(blocks)

  expect(await first.signal("SIGTERM")).toBe(0)
  expect(await first.routes()).toEqual(wanted.toSorted())
  expect(await first.blocks()).toEqual(blocks)
  expect(await stat(first.host.file("/run/cni/agent.sock")).catch(({ code }) => code)).toBe("ENOENT")
})

test("a link that goes down and comes up again has its routes again", async () => {
  await using cluster = await makeCluster(2)
  const [first, second] = cluster.hosts as [AgentHost, AgentHost]
  await Promise.all(cluster.hosts.map((host) => host.start()))
  const wanted = await second.routesHere()
  await expectRoutes(first, ...wanted)
  await first.host.exec("ip", ["link", "set", "uplink", "down"])
  expect((await first.routes()).length).toBeLessThan(wanted.length)
  await first.host.exec("ip", ["link", "set", "uplink", "up"])
  await first.host.exec("ip", ["address", "replace", "2001:db8::1/64", "dev", "uplink", "nodad"]) // the kernel drops it with the link
  await expectRoutes(first, ...wanted)
})

test("when a node's address changes the routes of the others follow, and traffic goes on", async () => {
  await using cluster = await makeCluster(2)
  const [first, second] = cluster.hosts as [AgentHost, AgentHost]
  await Promise.all(cluster.hosts.map((host) => host.start()))
  await expectRoutes(first, ...(await second.routesHere()))
  const [from, to] = [await first.addPod("bridge"), await second.addPod("bridge")]
  expect(await ping(from.namespace, to.addresses[0] ?? "")).toBe(true)
  await second.host.exec("sysctl", ["-qw", "net.ipv4.conf.all.promote_secondaries=1"])
  for (const change of [
    ["address", "add", "192.0.2.22/24", "dev", "uplink"],
    ["address", "add", "2001:db8::22/64", "dev", "uplink", "nodad"],
    ["route", "replace", "default", "via", "192.0.2.254", "src", "192.0.2.22"],
    ["-6", "route", "replace", "default", "via", "2001:db8::fe", "src", "2001:db8::22"],
  ])
    await second.host.exec("ip", change)
  await expectRoutes(first, ...(await second.routesHere(22)))
  await second.host.exec("ip", ["address", "del", "192.0.2.2/24", "dev", "uplink"])
  for (const address of to.addresses) expect([address, await ping(from.namespace, address)]).toEqual([address, true])
})

test("routes to a node that is gone stay in quarantine, and lead to the next owner afterwards", async () => {
  await using cluster = await makeCluster(2)
  const [first, second] = cluster.hosts as [AgentHost, AgentHost]
  const { store } = cluster
  const gone = await pretend(store, "gone", ["192.0.2.77"], "10.64.77.0/26")
  await Promise.all(cluster.hosts.map((host) => host.start()))
  const others = await second.routesHere()
  await expectRoutes(first, "10.64.77.0/26 via 192.0.2.77", ...others)
  const node = (await store.find("node", "gone")) ?? expect.unreachable()
  expect(await store.remove(node)).toBe(true)
  const owned = (await store.find("block", "pods/10.64.77.0/26")) ?? expect.unreachable()
  const waiting = (await store.replace(owned, { ...owned.value, state: "quarantined" })) ?? expect.unreachable()
  await expectFaults(first, `Cannot route to new blocks of node "${gone.name}": it has no record in the store`)
  expect(await first.routes()).toContain("10.64.77.0/26 via 192.0.2.77")

  const owner = await pretend(store, "next", ["192.0.2.78"])
  await store.replace(waiting, { ...waiting.value, owner, epoch: 2, nonce: "next", state: "owned" })
  await expectRoutes(first, "10.64.77.0/26 via 192.0.2.78", ...others)
  await expectFaults(first)
})

test("a route of another program stays and is a fault; the agent's comes when it goes", async () => {
  await using cluster = await makeCluster(1)
  const [first] = cluster.hosts as [AgentHost]
  for (const [family, prefix, gateway] of [
    ["-4", "10.64.50.0/26", "192.0.2.99"],
    ["-6", "fd00:64:0:50::/80", "2001:db8::99"],
  ] as const)
    await first.host.exec("ip", [family, "route", "add", prefix, "via", gateway, "proto", "static"])
  const others = async () => {
    const families = ["-4", "-6"].map((one) =>
      first.host.json<object[]>("ip", [one, "-j", "route", "show", "proto", "static"]),
    )
    return (await Promise.all(families)).flat()
  }
  const before = await others()
  await pretend(
    cluster.store,
    "node-9",
    ["192.0.2.9", "2001:db8::9"],
    "10.64.50.0/26",
    "10.64.51.0/26",
    "fd00:64:0:50::/80",
  )
  await first.start()
  await expectRoutes(first, "10.64.51.0/26 via 192.0.2.9")
  await expectFaults(
    first,
    'Cannot route to the IPv4 blocks of node "node-9" via 192.0.2.9: a route of another program to a block is there',
    'Cannot route to the IPv6 blocks of node "node-9" via 2001:db8::9: a route of another program to a block is there',
  )
  expect(await others()).toEqual(before)
  await first.host.exec("ip", ["-6", "route", "del", "fd00:64:0:50::/80"])
  await first.host.exec("ip", ["route", "del", "10.64.50.0/26"])
  await expectRoutes(
    first,
    "10.64.50.0/26 via 192.0.2.9",
    "10.64.51.0/26 via 192.0.2.9",
    "fd00:64:0:50::/80 via 2001:db8::9",
  )
  await expectFaults(first)
  // Another program has put its own in the place of one, which stays when the block is gone.
  await first.host.exec("ip", ["route", "replace", "10.64.51.0/26", "via", "192.0.2.99", "proto", "static"])
  const block = (await cluster.store.find("block", "pods/10.64.51.0/26")) ?? expect.unreachable()
  await cluster.store.remove(block)
  await expectRoutes(first, "10.64.50.0/26 via 192.0.2.9", "fd00:64:0:50::/80 via 2001:db8::9")
  expect(await others()).toMatchObject([{ dst: "10.64.51.0/26", gateway: "192.0.2.99" }])
})

test("a gateway on no link, and a node without an address of a family, are faults that are told once, until they are mended", async () => {
  await using cluster = await makeCluster(1)
  const [first] = cluster.hosts as [AgentHost]
  await pretend(
    cluster.store,
    "far",
    ["203.0.113.9", "2001:db8:f::9"],
    "10.64.60.0/26",
    "10.64.61.0/26",
    "fd00:64:0:60::/80",
  )
  await pretend(cluster.store, "v4", ["192.0.2.44"], "10.64.44.0/26", "fd00:64:0:44::/80")
  await first.start()
  await expectRoutes(first, "10.64.44.0/26 via 192.0.2.44")
  const v4 = 'Cannot route to the IPv6 blocks of node "v4": it has published no IPv6 address'
  const far = [
    'Cannot route to the IPv4 blocks of node "far" via 203.0.113.9: the address is on no link of this node that is up (ENETUNREACH)',
    'Cannot route to the IPv6 blocks of node "far" via 2001:db8:f::9: the address is on no link of this node that is up (EHOSTUNREACH)',
  ]
  await expectFaults(first, ...far, v4)
  // Each of these changes has the agent look at the table again.
  for (let at = 0; at < 3; at++) {
    await first.host.exec("ip", ["route", "del", "10.64.44.0/26"])
    await expectRoutes(first, "10.64.44.0/26 via 192.0.2.44")
  }
  for (const fault of [...far, v4]) expect(first.log.split(fault)).toHaveLength(2)
  await first.host.exec("ip", ["address", "add", "203.0.113.1/24", "dev", "uplink"])
  await first.host.exec("ip", ["address", "add", "2001:db8:f::1/64", "dev", "uplink", "nodad"])
  await waitFor(async () => (await first.routes()).length === 4, "the routes to the node that is on a link now")
  await expectFaults(first, v4)
})

test("the socket, metrics and health answer; the socket is root's alone; a second agent is refused", async () => {
  await using cluster = await makeCluster(1)
  const [first] = cluster.hosts as [AgentHost]
  await first.start()
  expect((await stat(first.host.file("/run/cni/agent.sock"))).mode & 0o7777).toBe(0o600)
  expect(await first.http("/healthz")).toEqual({ status: 200, text: "ok\n" })
  expect(await first.http("/readyz")).toEqual({ status: 200, text: "ok\n" })
  expect(await first.http("/status")).toEqual({ status: 404, text: "not found\n" })
  const { stdout: listening } = await first.host.exec("ss", ["-Hltn"])
  expect(
    listening
      .trim()
      .split("\n")
      .map((line) => line.split(/\s+/)[3]),
  ).toEqual(["127.0.0.1:9817"])
  const { text: metrics } = await first.http("/metrics")
  for (const line of metrics.trimEnd().split("\n"))
    expect(line).toMatch(/^(# (HELP|TYPE) [a-z_]+ .+|[a-z_]+(\{([a-z]+="([^"\\]|\\.)*",?)+\})? [0-9.e+-]+)$/)
  expect(metrics).toContain('cni_ipam_blocks{pool="pods",prefix="10.64.0.0/16",state="owned"} 1')

  const status = await first.run("status", "--socket", "/run/cni/agent.sock")
  expect(status.stdout).toContain("Node node-1, store: directory")
  expect(JSON.parse((await first.run("status", "--config", "/run/cni/agent.json", "-o", "json")).stdout)).toMatchObject(
    {
      node: { name: "node-1" },
      pools: [{ name: "pods", network: "pods" }],
    },
  )
  const second = await first.run("run", "--config", "/run/cni/agent.json")
  expect(second.exitCode).toBe(1)
  expect(second.stderr).toContain('another one of this node has the lock "/var/lib/cni/pools/.agent.lock"')
  const { stdout: rss } = await mustRun(["awk", "/^VmRSS/ { print $2 }", `/proc/${first.pid}/status`])
  expect(Number(rss)).toBeLessThan(80 * 1024)
})

test("SIGHUP has the agent take another configuration, and keep the one before where that is wrong", async () => {
  await using cluster = await makeCluster(2)
  const [first, second] = cluster.hosts as [AgentHost, AgentHost]
  await Promise.all(cluster.hosts.map((host) => host.start()))
  await expectRoutes(first, ...(await second.routesHere()))
  await second.configure({ store: { type: "directory", path: cluster.directory }, colour: 1 })
  await second.signal("SIGHUP")
  await waitFor(() => second.log.includes('Cannot use "colour": unknown key'), "the fault in the log")
  expect(await second.ask("/healthz")).toBe("ok\n")
  await second.host.exec("ip", ["address", "add", "192.0.2.23/24", "dev", "uplink"])
  await second.configure({
    store: { type: "directory", path: cluster.directory },
    nodeAddresses: ["192.0.2.23", "2001:db8::2"],
    log: "json",
  })
  const blocks = await second.blocks()
  await second.signal("SIGHUP")
  const wanted = (await second.routesHere()).map((route) => route.replace("via 192.0.2.2", "via 192.0.2.23"))
  await expectRoutes(first, ...wanted)
  expect(await second.blocks()).toEqual(blocks)
  await waitFor(() => second.log.includes('"message":"The agent '), "a line of JSON")
  const line = second.log.split("\n").find((one) => one.startsWith("{")) ?? ""
  expect(JSON.parse(line)).toMatchObject({ level: "info", node: "node-2" })
})
