import { expect, test } from "bun:test"
import { copyFile, link, readdir, readFile, symlink, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { scriptCompiler } from "../../scripts/engine.ts"
import { pluginNames } from "../../suite/plugins.ts"
import {
  Attachment,
  bridgeNetwork,
  builtPlugins,
  HostNamespace,
  mustRun,
  type PluginResult,
  pluginEnv,
  programEnv,
  runPlugin,
  runProgram,
  succeed,
  TemporaryDirectory,
} from "../lab/mod.ts"

const executable = join(builtPlugins, "bridge")
const tool = join(builtPlugins, "../cni")
const version = { env: { CNI_COMMAND: "VERSION" } }
const project = join(import.meta.dir, "../..")

/** Changes a value in the bytes of an executable. */
type Spoil = (bytes: Buffer, buildId: Buffer) => void

async function buildIdOf(file: string): Promise<Buffer> {
  const { stdout } = await mustRun(["readelf", "--notes", file])
  return Buffer.from(/Build ID: ([0-9a-f]+)/.exec(stdout)?.[1] ?? "", "hex")
}

function makeOtherBuild(bytes: Buffer, id: Buffer): void {
  const at = bytes.indexOf(id)
  expect([id.length, bytes.indexOf(id, at + 1)]).toEqual([20, -1])
  bytes.writeUInt8(bytes.readUInt8(at + 19) ^ 1, at + 19)
}

test("a plugin's file alone is that plugin under any name: hard link, symbolic link, copy, found by PATH [S113]", async () => {
  const places = [
    ["dhcp", "cnv-dhcp", copyFile],
    ["bridge", "bridge", link],
    ["bridge", "bridge.distrib", link],
    ["bridge", "loopback", link],
    ["bridge", "constructor", link],
    ["tuning", "cnv-tuning", symlink],
    ["flannel", "flannel-wg", copyFile],
    ["host-local", "host-local", copyFile],
  ] as const
  for (const [plugin, name, place] of places) {
    await using bin = await TemporaryDirectory.create("cni-names", join(project, "dist"))
    await place(join(builtPlugins, plugin), bin.join(name))
    for (const command of [[bin.join(name)], ["/usr/bin/env", `PATH=${bin.path}`, name]]) {
      const { stderr, exitCode } = await runProgram(command, { env: {} })
      expect({ name, exitCode, stderr: stderr.split("\n")[0] }).toMatchObject({
        exitCode: 0,
        stderr: expect.stringContaining(`CNI ${plugin} plugin v`),
      })
    }
  }
})

test("VERSION is one line with every supported version, and does not wait for stdin", async () => {
  const { stdout } = await mustRun([join(builtPlugins, "bridge")], version)
  expect(stdout.endsWith("}\n")).toBe(true)
  expect(JSON.parse(stdout)).toEqual({
    cniVersion: "1.1.0",
    supportedVersions: ["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"],
  })
})

test.each(["copy", "symlink"])(
  "a %s of bridge and one of host-local under other names attach like them, in one process [S116]",
  async (how) => {
    await using host = await HostNamespace.create()
    await using bin = await TemporaryDirectory.create("cni-names", join(project, "dist"))
    const place = how === "copy" ? copyFile : symlink
    await place(executable, bin.join("cnv-bridge"))
    await place(join(builtPlugins, "host-local"), bin.join("our-pool"))
    await place(executable, bin.join("host-local")) // the file of another plugin
    const pod = await host.addContainer()
    const { ipam, ...rest } = bridgeNetwork({ isGateway: true })
    const config = { ...rest, type: "cnv-bridge", ipam: { ...ipam, type: "our-pool" } }
    const attachment = new Attachment(host, pod, config, { bin: bin.join("cnv-bridge") })
    const call = { verb: "ADD", containerId: pod.name, netns: pod.path, ifName: "eth0", config } as const
    const strace = ["strace", "-f", "-o", bin.join("trace"), "-e", "trace=execve"]
    const added = await succeed(runPlugin(host, { bin: bin.join("cnv-bridge"), under: strace, ...call }))
    const started = [...(await readFile(bin.join("trace"), "utf8")).matchAll(/execve\("([^"]*)/g)].map(
      ([, path]) => path,
    )
    expect(started).toEqual([bin.join("cnv-bridge")])
    expect(added.json).toMatchObject({ ips: [{ address: "10.22.0.2/16" }] })
    await succeed(attachment.check(added.json as PluginResult))
    await succeed(attachment.run("STATUS"))
    const itself = { ...config, ipam: { ...ipam, type: "host-local" } }
    expect((await attachment.run("STATUS", itself)).json).toMatchObject({ code: 7 })
    await succeed(attachment.run("GC", { "cni.dev/valid-attachments": [{ containerID: pod.name, ifname: "eth0" }] }))
    expect(await pod.json("ip", ["-j", "link", "show", "eth0"])).toHaveLength(1)
    await succeed(attachment.run("DEL"))
    expect(await pod.json<object[]>("ip", ["-j", "link", "show", "type", "veth"])).toEqual([])
  },
)

test("all files together are under 47 MB, and none has the parser of scripts [S99]", async () => {
  const files = await Promise.all((await readdir(builtPlugins)).map((name) => readFile(join(builtPlugins, name))))
  expect(files).toHaveLength(pluginNames.length)
  expect(files.reduce((sum, { length }) => sum + length, 0)).toBeLessThan(47e6)
  const parserSays = "invalid destructuring target"
  expect((await readFile(await scriptCompiler())).includes(parserSays)).toBe(true)
  expect(files.filter((file) => file.includes(parserSays))).toEqual([])
})

test("all files are of one suite: each has the same build id, however it starts", async () => {
  const names = await readdir(builtPlugins)
  const ids = await Promise.all(names.map((name) => buildIdOf(join(builtPlugins, name))))
  expect(ids.map((id) => id.length)).toEqual(Array(pluginNames.length).fill(20))
  expect(new Set(ids.map((id) => id.toString("hex"))).size).toBe(1)
})

test("what is in the working directory is neither read nor run [S35]", async () => {
  await using directory = await TemporaryDirectory.create()
  const trap = 'require("fs").writeFileSync("ran", "")'
  for (const file of ["trap.ts", "entries/bridge.js", "entries/bridge.ts"]) await Bun.write(directory.join(file), trap)
  await Bun.write(directory.join("bunfig.toml"), 'preload = ["./trap.ts"]\n')
  await Bun.write(directory.join(".env"), "CNI_COMMAND=VERSION\n")
  const shell = ["sh", "-c", `cd ${directory.path} && exec ${join(builtPlugins, "bridge")}`]
  const { stdout, exitCode } = await runProgram(shell, { env: { PATH: programEnv.PATH ?? "" } })
  expect({ stdout, exitCode }).toEqual({ stdout: "", exitCode: 0 }) // the plugin introduces itself on stderr
  expect(await Bun.file(directory.join("ran")).exists()).toBe(false)
})

test("host-local in this process and as a process of its own give the same bytes", async () => {
  await using host = await HostNamespace.create()
  await using apart = await TemporaryDirectory.create("cni-apart", join(project, "dist"))
  const bytes = await readFile(join(builtPlugins, "host-local"))
  makeOtherBuild(bytes, await buildIdOf(join(builtPlugins, "host-local")))
  await writeFile(apart.join("host-local"), bytes, { mode: 0o755 })
  const pod = await host.addContainer()
  const config = bridgeNetwork({ isDefaultGateway: true, mtu: 1400 })
  const answers: { inProcess: string[]; apart: string[] } = { inProcess: [], apart: [] }
  for (const [which, path] of [
    ["inProcess", builtPlugins],
    ["apart", apart.path],
  ] as const) {
    const runtimeConfig = { mac: "0a:00:00:00:00:07", ips: ["10.22.0.9"] }
    const attachment = new Attachment(host, pod, { ...config, runtimeConfig }, { path })
    const added = await succeed(attachment.run("ADD"))
    const exhausted = { ipam: { type: "host-local", ranges: [[{ subnet: "10.99.0.0/33" }]] } }
    const outputs = [
      added,
      await attachment.check(added.json as PluginResult),
      await attachment.run("STATUS"),
      await attachment.run("STATUS", exhausted),
      await attachment.run("DEL"),
    ]
    const normal = (text: string) => text.replaceAll(/veth[0-9a-f]{8}/g, "vethX").replaceAll(/"mac": "[^"]*"/g, '"mac"')
    answers[which] = outputs.map(({ stdout, stderr, exitCode }) => normal(`${exitCode}\n${stdout}\n${stderr}`))
  }
  expect(answers.inProcess).toEqual(answers.apart)
  expect(answers.inProcess[3]).toContain('"code"')
})

test("ADD starts no program, and needs at most 12 netlink requests once the bridge is there", async () => {
  await using host = await HostNamespace.create()
  await using directory = await TemporaryDirectory.create()
  const config = bridgeNetwork({ isDefaultGateway: true })
  await new Attachment(host, await host.addContainer(), config).add()
  const pod = await host.addContainer()
  const bin = join(builtPlugins, "bridge")
  const env = pluginEnv({ bin, verb: "ADD", containerId: pod.name, netns: pod.path, ifName: "eth0" })
  const strace = ["-f", "-o", directory.join("trace"), "-e", "trace=execve,sendto,sendmsg", bin]
  await host.exec("strace", strace, { env, input: JSON.stringify(config) })
  const trace = await readFile(directory.join("trace"), "utf8")
  expect(trace.match(/execve\(/g)).toHaveLength(1) // the start of the plugin by strace
  const requests = trace.match(/send(to|msg)\(\d+, \[?\{.*(nlmsg_type|RTM_)/g) ?? trace.match(/send(to|msg)\(/g) ?? []
  expect(requests.length).toBeGreaterThan(5)
  expect(requests.length).toBeLessThanOrEqual(12)
})

test.each<[string, Spoil]>([
  ["another build's, however alike the files are", makeOtherBuild],
  [
    "one that claims a note of 1.25 GiB",
    (bytes) => {
      const [table, size, count] = [Number(bytes.readBigUInt64LE(32)), bytes.readUInt16LE(54), bytes.readUInt16LE(56)]
      const headers = Array.from({ length: count }, (_, at) => table + at * size)
      const notes = headers.filter((at) => bytes.readUInt32LE(at) === 4)
      expect(notes.length).toBeGreaterThan(0)
      for (const at of notes) bytes.writeBigUInt64LE(5n << 28n, at + 32)
    },
  ],
])("host-local runs as a process of its own: %s", async (_, spoil) => {
  await using host = await HostNamespace.create()
  await using bin = await TemporaryDirectory.create("cni-other-build", join(project, "dist"))
  await copyFile(executable, bin.join("bridge"))
  const file = join(builtPlugins, "host-local")
  const bytes = await readFile(file)
  spoil(bytes, await buildIdOf(file))
  await writeFile(bin.join("host-local"), bytes, { mode: 0o755 })
  const pod = await host.addContainer()
  const call = { verb: "ADD", containerId: pod.name, netns: pod.path, ifName: "eth0" } as const
  const env = pluginEnv({ bin: bin.join("bridge"), ...call })
  const strace = ["-f", "-o", bin.join("trace"), "-e", "trace=execve", bin.join("bridge")]
  const { stdout } = await host.exec("strace", strace, { env, input: JSON.stringify(bridgeNetwork()) })
  expect(JSON.parse(stdout)).toMatchObject({ ips: [{ address: "10.22.0.2/16" }] })
  const started = [...(await readFile(bin.join("trace"), "utf8")).matchAll(/execve\("([^"]*)/g)].map(([, path]) => path)
  expect(started).toEqual([bin.join("bridge"), bin.join("host-local")])
})

test("the files of `cni install` work when a runtime calls them by hand, while an older one is running", async () => {
  await using host = await HostNamespace.create()
  await using bin = await TemporaryDirectory.create("cni-bin", join(project, "dist"))
  const { stdout } = await mustRun([tool, "install", "--bin-dir", bin.path])
  expect(stdout).toContain("bridge")
  await using tools = await TemporaryDirectory.create("cni-tools", join(project, "dist"))
  await mustRun([tool, "install", "--bin-dir", bin.path, "--tool-dir", tools.path])
  expect((await mustRun([tools.join("cnitool")])).stdout).toContain("cnitool COMMAND NETWORK NETNS")
  expect((await mustRun([tools.join("cni-agent"), "version"])).stdout).toMatch(/^cni-agent \d/)
  expect(
    (await mustRun([tools.join("cni"), "install", "--bin-dir", bin.path, "--dry-run"]).catch(String)).toString(),
  ).toContain("Cannot find the plugins")
  const pod = await host.addContainer()
  const call = { containerId: pod.name, netns: pod.path, ifName: "eth0", config: bridgeNetwork({ isGateway: true }) }
  const added = await succeed(runPlugin(host, { bin: bin.join("bridge"), verb: "ADD", ...call }))
  expect(added.json).toMatchObject({ ips: [{ address: "10.22.0.2/16" }] })
  await succeed(runPlugin(host, { bin: bin.join("bridge"), verb: "DEL", ...call }))
})
