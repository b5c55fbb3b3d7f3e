import { expect, test } from "bun:test"
import { join } from "node:path"
import { builtPlugins, HostNamespace, programEnv, TemporaryDirectory } from "../lab/mod.ts"

const tool = join(builtPlugins, "../cni")
const ipam = { type: "host-local", ranges: [[{ subnet: "10.22.0.0/30" }]] }
const bridge = { type: "bridge", bridge: "br-explain", isGateway: true, ipam }

/** Networks for which ADD fails, with the expected explanation. */
const faults: readonly (readonly [string, object, RegExp, string])[] = [
  ["a plugin that is not installed", { type: "calico" }, /not in the runtime's directories of plugins/, "cni lint"],
  [
    "a master that does not exist",
    { type: "macvlan", master: "eth7", ipam },
    /macvlan, ipvlan, vlan: set `?master/,
    "ip -d link",
  ],
  [
    "a chained plugin alone",
    { type: "tuning", mtu: 1400 },
    /portmap, .* is the first or only plugin of the list/,
    "cni lint",
  ],
  ["a value of the wrong type", { ...bridge, isGateway: "yes" }, /correct the key/, "cni lint"],
  [
    "host bits",
    { ...bridge, ipam: { type: "host-local", subnet: "10.22.0.1/24" } },
    /is an address, not a network/,
    "cni lint",
  ],
]

test("what the tool says of real failures is explained, as text and as the error object", async () => {
  await using host = await HostNamespace.create()
  await using directory = await TemporaryDirectory.create()
  const pod = await host.addContainer()
  const explain = async (said: string) => {
    await Bun.write(directory.join("said"), said)
    return host.tryExec("sh", ["-c", `exec ${tool} explain - < ${directory.join("said")}`], { env: programEnv })
  }
  for (const [what, plugin, meaning, look] of faults) {
    await Bun.write(
      directory.join("net.conflist"),
      JSON.stringify({ cniVersion: "1.1.0", name: "net", plugins: [plugin] }),
    )
    const add = ["add", "net", pod.path, "--conf-dir", directory.path, "--bin-dir", builtPlugins]
    const failed = await host.tryExec(tool, add, { env: programEnv })
    const object = await host.tryExec(tool, [...add, "--json"], { env: programEnv })
    for (const said of [failed.stderr, object.stdout]) {
      const { stdout, exitCode } = await explain(said)
      expect([what, exitCode]).toEqual([what, 0])
      expect(stdout).toMatch(meaning)
      expect(stdout).toContain(look)
    }
  }
})

test("a range that is full names the command that shows who has the addresses", async () => {
  await using host = await HostNamespace.create()
  await using directory = await TemporaryDirectory.create()
  await Bun.write(
    directory.join("net.conflist"),
    JSON.stringify({ cniVersion: "1.1.0", name: "net", plugins: [bridge] }),
  )
  const places = ["--conf-dir", directory.path, "--bin-dir", builtPlugins]
  const [first, second] = [await host.addContainer(), await host.addContainer()]
  await host.exec(tool, ["add", "net", first.path, ...places], { env: programEnv })
  const full = await host.tryExec(tool, ["add", "net", second.path, ...places], { env: programEnv })
  const { stdout } = await host.exec(tool, ["explain", full.stderr], { env: programEnv })
  expect(stdout).toContain("PLUGIN   bridge, add\n")
  expect(stdout).toContain("LOOK     cni ipam ls\n")
  const log = await host.exec("sh", ["-c", `for i in 1 2 3; do cat; done | ${tool} explain - || true`], {
    env: programEnv,
  })
  expect(log.stdout).toBe("")
  const unknown = await host.tryExec(tool, ["explain", "nothing of the kind"], { env: programEnv })
  expect([unknown.exitCode, unknown.stdout]).toEqual([1, ""])
})
