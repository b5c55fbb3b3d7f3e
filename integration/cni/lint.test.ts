import { describe, expect, test } from "bun:test"
import { mkdir } from "node:fs/promises"
import { dirname, join } from "node:path"
import { type Case, cases, placed } from "../../tools/lint/cases.fixture.ts"
import { builtPlugins, HostNamespace, programEnv, TemporaryDirectory } from "../lab/mod.ts"

const tool = join(builtPlugins, "../cni")

/** A plugin that supports the specification only up to 0.4.0. */
const elder = `#!/bin/sh
echo '{"cniVersion":"0.4.0","supportedVersions":["0.3.1","0.4.0"]}'
`

/**
 * Creates a host with an interface `uplink`. Through `uplink` the host has a route to 192.168.77.0/24, and a default
 * route from a router advertisement.
 */
async function hostWithUplink(): Promise<HostNamespace> {
  const host = await HostNamespace.create()
  await host.exec("ip", ["link", "add", "uplink", "type", "veth", "peer", "name", "far"])
  await host.exec("ip", ["address", "add", "192.168.77.9/24", "dev", "uplink"])
  for (const name of ["uplink", "far"]) await host.exec("ip", ["link", "set", name, "up"])
  await host.exec("ip", ["route", "add", "default", "via", "fe80::1", "dev", "uplink", "proto", "ra"])
  return host
}

interface Found {
  file: string
  line: number
  column: number
  rule: string
  severity: string
}

async function write(directory: string, { files }: Pick<Case, "files">): Promise<void> {
  for (const [name, text] of Object.entries(files)) await Bun.write(join(directory, name), text)
}

async function lint(host: HostNamespace, args: string[]): Promise<{ exitCode: number; findings: Found[] }> {
  const { exitCode, stdout, stderr } = await host.tryExec(tool, ["lint", ...args, "--json"], { env: programEnv })
  expect(stderr).toBe("")
  return { exitCode, findings: JSON.parse(stdout).findings }
}

describe("the built tool finds each seeded fault in its place, by its rule", () => {
  test.each([
    ["files alone", false],
    ["a node", true],
  ] as const)("%s", async (_, onNode) => {
    await using host = await hostWithUplink()
    await using scratch = await TemporaryDirectory.create()
    await mkdir(scratch.join("bin"))
    for (const name of ["bridge", "macvlan", "host-local", "tuning", "portmap"])
      await Bun.write(scratch.join(`bin/${name}`), Bun.file(join(builtPlugins, name)))
    await Bun.write(scratch.join("bin/elder"), elder)
    await host.exec("sh", ["-c", `chmod 755 ${scratch.join("bin")}/*`])
    const missed: string[] = []
    for (const [index, one] of cases.filter((each) => Boolean(each.onNode) === onNode).entries()) {
      const { files, file, line, column } = placed(one)
      const directory = scratch.join(String(index))
      await write(directory, { files })
      const services = one.serviceRange === undefined ? [] : ["--service-range", one.serviceRange]
      const node = onNode ? ["--node", "--bin-dir", scratch.join("bin")] : []
      const { exitCode, findings } = await lint(host, [directory, ...services, ...node])
      const found = findings.find((each) => each.rule === one.rule && each.line === line && each.column === column)
      if (found?.file !== join(directory, file)) missed.push(`${one.rule}: ${one.what}`)
      const hasError = findings.some(({ severity }) => severity === "error")
      expect([one.what, exitCode]).toEqual([one.what, hasError ? 3 : 0])
    }
    expect(missed).toEqual([])
  })
})

test("without a file it is the directory of the node, and a network that works there has no findings", async () => {
  await using host = await hostWithUplink()
  await using directory = await TemporaryDirectory.create()
  const ipam = { type: "host-local", ranges: [[{ subnet: "10.22.0.0/16" }]] }
  const bridge = { type: "bridge", bridge: "br-lint", isDefaultGateway: true, ipMasq: true, ipam }
  await Bun.write(
    directory.join("10-lab.conflist"),
    JSON.stringify({ cniVersion: "1.1.0", name: "lab", plugins: [bridge] }),
  )
  const places = ["--conf-dir", directory.path, "--bin-dir", builtPlugins]
  const pod = await host.addContainer()
  expect(await lint(host, places)).toEqual({ exitCode: 0, findings: [] })
  // There are also no findings once the network's own bridge and routes exist.
  await host.exec(tool, ["add", "lab", pod.path, ...places], { env: programEnv })
  expect(await lint(host, places)).toEqual({ exitCode: 0, findings: [] })
  await host.exec(tool, ["del", "lab", pod.path, ...places], { env: programEnv })
})

test("routes to one address, to nowhere, and the node's own network are no findings, nor is as much as the master's MTU", async () => {
  await using host = await hostWithUplink()
  await using directory = await TemporaryDirectory.create()
  await host.exec("ip", ["route", "add", "192.168.78.5/32", "dev", "uplink"])
  await host.exec("ip", ["route", "add", "unreachable", "192.168.80.0/24"])
  const ofPool = (subnet: string) => ({ type: "host-local", ranges: [[{ subnet }]] })
  for (const [plugin, expected] of [
    [{ type: "bridge", ipam: ofPool("192.168.78.0/24") }, []],
    [{ type: "bridge", ipam: ofPool("192.168.80.0/24") }, []],
    [{ type: "bridge", ipam: ofPool("192.168.0.0/16") }, ["node-route"]],
    [{ type: "macvlan", master: "uplink", mtu: 1500, ipam: ofPool("192.168.77.0/24") }, ["shared-range"]],
    [{ type: "macvlan", master: "eth7", linkInContainer: true, ipam: { type: "static" } }, []],
  ] as const) {
    const list = { cniVersion: "1.1.0", name: "lab", plugins: [plugin] }
    await Bun.write(directory.join("10-lab.conflist"), JSON.stringify(list))
    const { findings } = await lint(host, [directory.path, "--node", "--bin-dir", builtPlugins])
    expect([plugin, findings.map(({ rule }) => rule)]).toEqual([plugin, [...expected]])
  }
})

test("a FIFO is a file that cannot be used, in a directory and by its own name, and holds up nothing", async () => {
  await using host = await HostNamespace.create()
  await using directory = await TemporaryDirectory.create()
  const fifo = directory.join("10-lab.conflist")
  await host.exec("mkfifo", [fifo])
  await Bun.write(directory.join("20-other.conflist"), "{")
  const alone = await host.tryExec(tool, ["lint", fifo], { env: programEnv })
  expect(alone).toMatchObject({
    exitCode: 3,
    stdout: expect.stringContaining(
      `${fifo}:1:1: error: the file cannot be read: it is not a regular file [json-syntax]`,
    ),
  })
  const { exitCode, findings } = await lint(host, [directory.path])
  const files = findings.map(({ file }) => file)
  expect({ exitCode, files }).toEqual({ exitCode: 3, files: [fifo, directory.join("20-other.conflist")] })
})

test("warnings stop a pipeline only with --strict; a path that does not exist is an error", async () => {
  await using host = await HostNamespace.create()
  await using directory = await TemporaryDirectory.create()
  const file = directory.join("10-lab.conflist")
  await Bun.write(file, '{ "cniVersion": "1.1.0", "name": "lab", "plugins": [{ "type": "loopback", "x": 1 }] }')
  expect((await lint(host, [file])).exitCode).toBe(0)
  expect((await lint(host, [file, "--strict"])).exitCode).toBe(3)
  const gone = await host.tryExec(tool, ["lint", join(dirname(file), "gone")], { env: programEnv })
  expect([gone.exitCode, gone.stderr]).toEqual([1, expect.stringContaining("gone")])
  const text = await host.tryExec(tool, ["lint", file], { env: programEnv })
  expect(text.stdout).toContain(`${file}:1:75: warning: "x" is not a key of this plugin`)
})
