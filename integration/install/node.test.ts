import { expect, test } from "bun:test"
import { mkdir, readdir, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { bridgeNetwork, builtPlugins, HostNamespace, TemporaryDirectory } from "../lab/mod.ts"

const tool = join(builtPlugins, "../cni")

/** A host with directories for plugins and configurations, and a configuration to install. */
async function makeNode(config: object) {
  const host = await HostNamespace.create()
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
  expect(await readdir(node.conf)).toEqual([]) // no further container
  expect(await readdir(node.bin)).toContain("bridge")

  const del = ["del", name, pod.path, "--conf-dir", node.file.replace(/\/[^/]*$/, ""), "--bin-dir", node.bin]
  expect(await node.host.tryExec(tool, del)).toMatchObject({ exitCode: 0 })
  expect(await node.install("--uninstall")).toMatchObject({ exitCode: 0, stderr: "" })
  expect(await readdir(node.bin)).toEqual([])
})

test("a network whose plugins say that every ADD would fail is not installed, and the plugins are", async () => {
  const ipam = { type: "host-local", ranges: [[{ subnet: "10.22.0.0/16" }]], resolvConf: "/none/resolv.conf" }
  await using node = await makeNode({ ...network, plugins: [{ ...plugin, type: "macvlan", master: "none0", ipam }] })
  const { exitCode, stderr } = await node.install("--config", node.file)
  expect([exitCode, stderr]).toEqual([1, expect.stringContaining("none0")])
  expect(await readdir(node.conf)).toEqual([])
  expect(await readdir(node.bin)).toContain("macvlan")
})

test("a configuration of the same name that others wrote stays without --adopt", async () => {
  await using node = await makeNode(network)
  const theirs = join(node.conf, "10-lab.conflist")
  await writeFile(theirs, "{}")
  const refused = await node.install("--config", node.file)
  expect(refused).toMatchObject({
    exitCode: 1,
    stderr: expect.stringContaining('"10-lab.conflist" was placed by others'),
  })
  expect(await Bun.file(theirs).text()).toBe("{}")
  expect(await node.install("--config", node.file, "--adopt")).toMatchObject({ exitCode: 0 })
  expect(await node.install("--config", node.file, "--rollback")).toMatchObject({ exitCode: 0 })
  expect(await Bun.file(theirs).text()).toBe("{}")
  expect(await readdir(node.bin)).toEqual([".cni-install"])
})
