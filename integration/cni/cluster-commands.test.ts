import { expect, test } from "bun:test"
import { join } from "node:path"
import { openStore } from "../../agent/mod.ts"
import { builtPlugins, type ContainerNamespace, ping, programEnv, waitFor } from "../lab/mod.ts"
import { NodeLab, podsNetwork } from "./node-lab.ts"

const program = join(builtPlugins, "../cni-agent")

/** A node with the network of ranges 10.85.0.0/24, and an agent whose store is a directory. */
async function makeNode() {
  const stack = new AsyncDisposableStack()
  const lab = stack.use(await NodeLab.create(podsNetwork))
  const path = lab.directory.join("store")
  const store = stack.use(await openStore({ type: "directory", path }, {}))
  await lab.host.exec("sh", ["-ec", "mkdir -p /run/cni-agent; mount -t tmpfs -o mode=755 cni-test /run/cni-agent"])
  const config = lab.directory.join("agent.json")
  await Bun.write(config, JSON.stringify({ node: "node-1", http: "", store: { type: "directory", path } }))
  const command = lab.host.commandLine([program, "run", "--config", config])
  const agent = Bun.spawn(command, { env: { ...programEnv }, stdio: ["ignore", "ignore", "ignore"] })
  stack.defer(async () => {
    agent.kill("SIGTERM")
    await agent.exited
  })
  const isThere = async () => (await lab.host.tryExec("test", ["-S", "/run/cni-agent/agent.sock"])).exitCode === 0
  await waitFor(isThere, "the agent's socket")
  const env = { ...lab.env(), PATH: `${join(program, "..")}:${programEnv.PATH}` }
  return {
    lab,
    store,
    /** A command of the cluster; by `cni`, or by `cni-agent` itself. */
    run: (tool: "cni" | "cni-agent", ...words: string[]) =>
      lab.host.tryExec(join(program, "..", tool), [...words, "--config", config], { env }),
    conf: () => Bun.file(join(lab.confDir, "10-pods.conflist")).text(),
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  }
}

const createPool = ["ipam", "pool", "create", "pods", "--prefix", "10.85.0.0/22", "--block-length", "24"]

test("cni hands the commands of a cluster over to cni-agent beside it, with output and exit code", async () => {
  await using node = await makeNode()
  expect(await node.run("cni", ...createPool)).toMatchObject({
    exitCode: 0,
    stdout: 'Made pool "pods" for network "pods"\n',
  })
  const isOwned = async () => {
    const { stdout } = await node.run("cni", "ipam", "blocks", "pods", "-o", "json")
    return (JSON.parse(stdout) as { owner: { name: string }; used?: number }[])[0]
  }
  const block = await waitFor(isOwned, "the agent to own a block")
  expect(block).toMatchObject({ owner: { name: "node-1" }, state: "owned", used: 0 })
  const { stdout } = await node.run("cni", "ipam", "ls", "--cluster", "-o", "json")
  expect(JSON.parse(stdout)).toMatchObject([{ node: "node-1", isMember: true, pools: [{ pool: "pods", owned: 1 }] }])
  expect(await node.run("cni", ...createPool.slice(0, 3), "more", "--prefix", "10.85.0.0/24")).toMatchObject({
    exitCode: 1,
    stderr: expect.stringContaining('overlaps with 10.85.0.0/22 of pool "pods"'),
  })
  expect((await node.run("cni", "ipam", "pool", "create", "x")).exitCode).toBe(2)
})

test("a network with containers goes from ranges to a pool and back: containers keep their addresses, none is given twice", async () => {
  await using node = await makeNode()
  const { lab } = node
  const pods = [await lab.addPod("web-1"), await lab.addPod("web-2")]
  const before = await node.conf()
  const files = async () => (await lab.host.exec("ls", ["/var/lib/cni/networks/pods"])).stdout
  const reserved = await files()
  await node.run("cni-agent", ...createPool, "--reserved", "10.85.0.0/23")

  const dry = await node.run("cni-agent", "migrate", "host-local", "pods", "--dry-run")
  expect(dry).toMatchObject({ exitCode: 0, stderr: "" })
  expect(await node.conf()).toBe(before)
  const done = await node.run("cni-agent", "migrate", "host-local", "pods")
  expect(done).toMatchObject({ exitCode: 0, stderr: "", stdout: dry.stdout.replaceAll("would ", "") })
  expect(JSON.parse(await node.conf()).plugins[0].ipam).toEqual({ type: "host-local", pool: "pods" })
  expect(await files()).toBe(reserved)
  expect((await lab.doctor()).findings).toEqual([])

  pods.push(await lab.addPod("web-3"))
  const addressOf = async (pod: (typeof pods)[number]) => {
    const [link] = await pod.json<{ addr_info: { family: string; local: string }[] }[]>("ip", [
      "-j",
      "addr",
      "show",
      "eth0",
    ])
    return link?.addr_info.find(({ family }) => family === "inet")?.local ?? ""
  }
  const addresses = await Promise.all(pods.map(addressOf))
  expect(addresses.slice(0, 2).sort()).toEqual(["10.85.0.2", "10.85.0.3"])
  expect(new Set(addresses).size).toBe(3)
  for (const address of addresses.slice(1)) expect(await ping(pods[0] as ContainerNamespace, address)).toBe(true)

  const back = await node.run("cni-agent", "migrate", "host-local", "pods", "--back")
  expect(back).toMatchObject({ exitCode: 0, stderr: "" })
  expect(await node.conf()).toBe(before)
  for (const [at, pod] of pods.entries())
    expect((await lab.cni(["del", "pods", pod.path, "--container-id", pod.name])).exitCode).toBe(at < 3 ? 0 : 1)
  expect((await files()).match(/^10\./gm)).toBeNull()
})

test("a migration that was killed is continued by the next run", async () => {
  await using node = await makeNode()
  const { lab } = node
  await lab.addPod("web-1")
  const before = await node.conf()
  await node.run("cni-agent", ...createPool)
  const saved = "/var/lib/cni/pools/.migration-pods.json"
  const command = lab.host.commandLine([
    program,
    "migrate",
    "host-local",
    "pods",
    "--config",
    lab.directory.join("agent.json"),
  ])
  const killed = Bun.spawn(command, { env: { ...lab.env() }, stdio: ["ignore", "ignore", "ignore"] })
  const isSaved = async () => (await lab.host.tryExec("test", ["-e", saved])).exitCode === 0
  await waitFor(isSaved, "the first step")
  killed.kill("SIGKILL")
  await killed.exited
  const next = await node.run("cni-agent", "migrate", "host-local", "pods")
  expect(next).toMatchObject({ exitCode: 0, stderr: "" })
  expect(JSON.parse(await node.conf()).plugins[0].ipam.pool).toBe("pods")
  expect(JSON.parse(await lab.host.exec("cat", [saved]).then(({ stdout }) => stdout)).text).toBe(before)
  expect((await node.run("cni-agent", "migrate", "host-local", "pods")).stdout).toBe("Nothing is left to do\n")
})

test("a network of whereabouts goes to a pool, which hands out what is free there and nothing else, and back", async () => {
  await using node = await makeNode()
  const { lab } = node
  const file = join(lab.confDir, "20-lan.conflist")
  const ipam = {
    type: "whereabouts",
    range: "192.168.77.0/28",
    gateway: "192.168.77.1",
    network_name: "lan",
    routes: [{ dst: "198.51.100.0/24" }],
    log_file: "/tmp/whereabouts.log",
  }
  const plugins = [{ type: "bridge", bridge: "lan0", isGateway: true, ipam }]
  const before = `${JSON.stringify({ cniVersion: "1.0.0", name: "lan", plugins }, undefined, 2)}\n`
  await Bun.write(file, before)
  /** IPPools that say that whereabouts has handed out these addresses. */
  const held = async (offsets: readonly number[]) => {
    const entry = (offset: number) => [String(offset), { id: `c${offset}`, podref: `shop/p${offset}`, ifname: "net1" }]
    const spec = { range: ipam.range, allocations: Object.fromEntries(offsets.map(entry)) }
    const path = lab.directory.join("ippools.json")
    await Bun.write(path, JSON.stringify({ items: [{ metadata: { name: "lan-192.168.77.0-28" }, spec }] }))
    return ["--ippools", path]
  }
  const migrate = (...words: string[]) => node.run("cni-agent", "migrate", "whereabouts", "lan", ...words)
  const pods: ContainerNamespace[] = []
  const add = async () => {
    const pod = await lab.host.addContainer()
    pods.push(pod)
    return lab.cni(["add", "lan", pod.path, "--container-id", pod.name, "-o", "json"])
  }
  const addressOf = ({ stdout }: { stdout: string }) =>
    (JSON.parse(stdout) as { ips: { address: string }[] }).ips.map(({ address }) => address)
  const added = async () => {
    const answer = await add()
    return answer.exitCode === 0 && answer
  }

  const dry = await migrate("--dry-run")
  expect(dry).toMatchObject({ exitCode: 0, stderr: "" })
  expect(await Bun.file(file).text()).toBe(before)
  const first = await migrate()
  expect(first).toMatchObject({ exitCode: 0, stdout: dry.stdout.replaceAll("would ", "") })
  const waiting = await add()
  expect(waiting.exitCode).toBe(1)
  expect(JSON.parse(waiting.stdout)).toMatchObject({ code: 11 })

  const most = [2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13]
  expect(await migrate(...(await held(most)))).toMatchObject({ exitCode: 0, stderr: "" })
  expect(addressOf(await waitFor(added, "an address"))).toEqual(["192.168.77.14/28"])
  expect(JSON.parse((await add()).stdout)).toMatchObject({ code: 11 })

  expect(await migrate(...(await held(most.filter((offset) => offset !== 5))))).toMatchObject({
    exitCode: 0,
    stderr: "",
  })
  expect(addressOf(await waitFor(added, "the freed address"))).toEqual(["192.168.77.5/28"])

  expect(await migrate("--back")).toMatchObject({
    exitCode: 1,
    stderr: expect.stringContaining('nodes own blocks of pool "lan" (192.168.77.0/28)'),
  })
  for (const pod of pods) await lab.cni(["del", "lan", pod.path, "--container-id", pod.name])
  const isRemoved = async () => (await node.run("cni-agent", "ipam", "pool", "rm", "lan")).exitCode === 0
  await waitFor(isRemoved, "the agent to give the block back")
  expect(await migrate("--back")).toMatchObject({ exitCode: 0, stderr: "" })
  expect(await Bun.file(file).text()).toBe(before)
})
