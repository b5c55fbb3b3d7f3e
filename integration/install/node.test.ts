import { expect, test } from "bun:test"
import { mkdir, readdir, rm, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { bridgeNetwork, builtPlugins, HostNamespace, TemporaryDirectory } from "../lab/mod.ts"
import { Suites } from "./suites.ts"

const tool = join(builtPlugins, "../cni")

async function makeNode(config: object) {
  const host = await HostNamespace.create()
  const ownRuntimes =
    "for one in /run/containerd /run/crio /run/k3s; do [ ! -d $one ] || mount -t tmpfs none $one; done"
  await host.exec("sh", ["-ec", ownRuntimes]) // hides the machine's own runtimes
  const directory = await TemporaryDirectory.create("cni-node", join(builtPlugins, ".."))
  const [bin, conf] = [directory.join("bin"), directory.join("net.d")]
  for (const each of [bin, conf]) await mkdir(each)
  const file = directory.join("10-lab.conflist")
  await writeFile(file, JSON.stringify(config))
  const places = ["--bin-dir", bin, "--conf-dir", conf]
  return {
    host,
    bin,
    conf,
    cni: (...words: string[]) => host.tryExec(tool, [...words, ...places]),
    install: (...flags: string[]) => host.tryExec(tool, ["install", ...places, ...flags]),
    file,
    [Symbol.asyncDispose]: async () => {
      await host[Symbol.asyncDispose]()
      await directory[Symbol.asyncDispose]()
    },
  }
}

const name = "lab"
const { cniVersion, name: _, ...plugin } = bridgeNetwork({ isGateway: true })
const network = { cniVersion, name, plugins: [plugin] }

test("a node's first installation: plugins, STATUS, and the configuration last; the plugins stay until the last DEL", async () => {
  await using node = await makeNode(network)
  const installed = await node.install("--config", node.file)
  expect(installed).toMatchObject({ exitCode: 0, stdout: expect.stringMatching(/10-lab\.conflist +created/) })
  expect((await readdir(node.conf)).sort()).toEqual([".cni-install", "10-lab.conflist"])
  const pod = await node.host.addContainer()
  expect(await node.cni("add", name, pod.path)).toMatchObject({ exitCode: 0 })

  const refused = await node.install("--uninstall")
  expect([refused.exitCode, refused.stderr]).toEqual([
    3,
    expect.stringMatching(/need the plugins for their DEL: 1\n {2}lab cnitool-\w+ eth0\n/),
  ])
  expect(await readdir(node.conf)).toEqual([]) // no new container can be attached
  expect(await readdir(node.bin)).toContain("bridge")

  const del = ["del", name, pod.path, "--conf-dir", node.file.replace(/\/[^/]*$/, ""), "--bin-dir", node.bin]
  expect(await node.host.tryExec(tool, del)).toMatchObject({ exitCode: 0 })
  expect(await node.install("--uninstall")).toMatchObject({ exitCode: 0, stderr: "" })
  expect(await readdir(node.bin)).toEqual([])
})

test("a removal that waits leaves the plugins until the last container is deleted, and says when that is", async () => {
  await using node = await makeNode(network)
  await node.install("--config", node.file)
  const pods = [await node.host.addContainer(), await node.host.addContainer()]
  for (const pod of pods) expect(await node.cni("add", name, pod.path)).toMatchObject({ exitCode: 0 })
  const late = await node.install("--uninstall", "--wait", "0.1")
  expect([late.exitCode, late.stderr]).toEqual([3, expect.stringMatching(/need the plugins for their DEL: 2\n/)])
  expect(await readdir(node.conf)).toEqual([])

  let isOver = false
  const waiting = node.install("--uninstall", "--wait", "600").finally(() => {
    isOver = true
  })
  for (const pod of pods) {
    expect([isOver, await readdir(node.bin)]).toEqual([false, expect.arrayContaining(["bridge", "host-local"])])
    const del = ["del", name, pod.path, "--conf-dir", node.file.replace(/\/[^/]*$/, ""), "--bin-dir", node.bin]
    expect(await node.host.tryExec(tool, del)).toMatchObject({ exitCode: 0 })
  }
  const { exitCode, stdout, stderr } = await waiting
  expect([exitCode, stderr]).toEqual([
    0,
    expect.stringMatching(
      /^Waiting for the DEL of these containers:\n( {2}lab cnitool-\w+ eth0\n){2}The last container was deleted after \d+ s: removing the plugins\.\n$/,
    ),
  ])
  expect(stdout).toMatch(/bridge +removed/)
  expect(await readdir(node.bin)).toEqual([])
})

test.each([
  [["--wait", "5"], "cannot use --wait without --uninstall"],
  [["--uninstall", "--wait", "soon"], "cannot use --wait soon: expected a number of seconds above 0"],
])(
  "%p is refused before anything is done",
  async (flags, says) => {
    await using node = await makeNode(network)
    const { exitCode, stderr } = await node.install("--config", node.file, ...flags)
    expect([exitCode, stderr]).toEqual([2, expect.stringContaining(says)])
    expect([await readdir(node.bin), await readdir(node.conf)]).toEqual([[], []])
  },
  60_000,
)

test("a network whose plugins say that every ADD would fail is not installed, and the plugins are", async () => {
  const ipam = { type: "host-local", ranges: [[{ subnet: "10.22.0.0/16" }]], resolvConf: "/none/resolv.conf" }
  await using node = await makeNode({ ...network, plugins: [{ ...plugin, type: "macvlan", master: "none0", ipam }] })
  const { exitCode, stderr } = await node.install("--config", node.file)
  expect([exitCode, stderr]).toEqual([1, expect.stringContaining("none0")])
  expect(await readdir(node.conf)).toEqual([])
  expect(await readdir(node.bin)).toContain("macvlan")
  // The program that makes the network usable may not be running yet.
  expect(await node.install("--config", node.file, "--skip-status")).toMatchObject({ exitCode: 0 })
  expect(await readdir(node.conf)).toContain("10-lab.conflist")
})

test("one rollback takes back one installation: what it did not change stays, and what it changed need not be named", async () => {
  await using node = await makeNode(network)
  await using suites = await Suites.create()
  const tools = suites.path("tools")
  await mkdir(tools)
  const there = async () => [await suites.others(), await readdir(tools), (await readdir(node.conf)).sort()]
  const run = async (suite: "A" | "B", ...flags: string[]) => {
    const words = ["install", "--bin-dir", suites.bin, "--conf-dir", node.conf, ...flags]
    expect(await node.host.tryExec(suites.tool(suite), words)).toMatchObject({ exitCode: 0 })
  }
  const all = ["--tool-dir", tools, "--config", node.file]
  await run("A", ...all)
  const whole = await there()
  expect(whole[1]).toContain("cni")
  await run("B", ...all) // the same tool and configuration
  for (const flags of [["--tool-dir", tools], ["--tool-dir", tools], []]) {
    await run("A", "--rollback", ...flags)
    expect([await suites.installed(), ...(await there())]).toEqual(["A", ...whole])
  }
  for (const directory of [suites.bin, tools, node.conf]) await rm(directory, { recursive: true })
  for (const directory of [suites.bin, tools, node.conf]) await mkdir(directory)
  await run("B", ...all)
  await run("B", "--rollback")
  expect(await there()).toEqual([[".cni-install"], [".cni-install"], [".cni-install"]])
  expect(await readdir(suites.bin)).toEqual([".cni-install"])
})

test("a directory for the tool that does not exist is told before plugins are installed", async () => {
  await using node = await makeNode(network)
  const { exitCode, stderr } = await node.install("--tool-dir", join(node.bin, "none"))
  expect([exitCode, stderr]).toEqual([1, expect.stringContaining("it does not exist")])
  expect(await readdir(node.bin)).toEqual([])
})

test("plugins and the tool share a directory, and go together", async () => {
  await using node = await makeNode(network)
  expect(await node.install("--tool-dir", node.bin)).toMatchObject({ exitCode: 0 })
  expect(await readdir(node.bin)).toEqual(expect.arrayContaining(["bridge", "cni", "cnitool"]))
  await node.host.exec(join(node.bin, "cni"), ["install", "--bin-dir", node.bin, "--verify"])
  expect(await node.install("--uninstall")).toMatchObject({ exitCode: 0 })
  expect(await readdir(node.bin)).toEqual([])
})

test("one directory for plugins and the configuration is refused before anything is done", async () => {
  await using node = await makeNode(network)
  const words = ["install", "--bin-dir", node.bin, "--conf-dir", node.bin, "--config", node.file]
  const { exitCode, stderr } = await node.host.tryExec(join(builtPlugins, "../cni"), words)
  expect([exitCode, stderr]).toEqual([2, expect.stringContaining(`cannot use ${node.bin} twice`)])
  expect(await readdir(node.bin)).toEqual([])
})

test("a configuration of the same name that others wrote stays without --adopt", async () => {
  await using node = await makeNode(network)
  const theirs = join(node.conf, "10-lab.conflist")
  await writeFile(theirs, "{}")
  const refused = await node.install("--config", node.file)
  expect(refused).toMatchObject({
    exitCode: 1,
    stderr: expect.stringContaining('"10-lab.conflist" was placed by other programs'),
  })
  expect([await Bun.file(theirs).text(), await readdir(node.bin)]).toEqual(["{}", []]) // no plugin was installed either
  expect(await node.install("--config", node.file, "--adopt")).toMatchObject({ exitCode: 0 })
  expect(await node.install("--config", node.file, "--rollback")).toMatchObject({ exitCode: 0 })
  expect(await Bun.file(theirs).text()).toBe("{}")
  expect(await readdir(node.bin)).toEqual([".cni-install"])
})
