import { expect, test } from "bun:test"
import { join } from "node:path"
import { version } from "../../package.json"
import {
  builtPlugins,
  type Change,
  casesOf,
  expectUnchanged,
  fail,
  isAllocationTrace,
  isLeftToKernel,
  namespacePids,
  pluginsAs,
  runProgram,
  Stage,
  succeed,
  takeSnapshot,
  testPlugins,
} from "../lab/mod.ts"

const chains = ["0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"]
const versions = ["0.1.0", "0.2.0", ...chains]

interface AnyResult {
  cniVersion: string
  ip4?: { ip: string }
  ips?: { address: string; version?: string }[]
  dns?: object
}

testPlugins(
  [
    ...casesOf(
      pluginsAs("interface", "delegating", "loopback", "ipam"),
      versions.map((version) => ({ version })),
    ),
    ...casesOf(
      pluginsAs("chained"),
      chains.map((version) => ({ version })),
    ),
  ],
  "#1, #4, #7 $plugin: ADD of version $version is answered in its layout, exit code 0",
  async ({ plugin, version }) => {
    await using stage = await Stage.create(plugin)
    const { attachment } = await stage.attach({ cniVersion: version })
    const result = (await succeed(attachment.run("ADD"))).json as AnyResult
    expect(result.cniVersion).toBe(version)
    const hasLists = version >= "0.3.0"
    expect({ ip4: result.ip4 !== undefined, ips: result.ips !== undefined }).toEqual({
      ip4: !hasLists,
      ips: hasLists,
    })
    const families = (result.ips ?? []).map((ip) => ip.version)
    expect(families).toEqual(families.map((_, at) => (version < "1.0.0" ? ["4", "6"][at] : undefined)))
    expect(result.dns).toEqual(version < "1.0.0" ? {} : undefined)
  },
)

testPlugins(
  casesOf(pluginsAs("interface", "delegating", "loopback", "ipam"), [
    { says: "0.1.0", keys: { cniVersion: "0.1.0" } },
    { says: "nothing", keys: { cniVersion: undefined }, forEachKind: true },
  ]),
  "#5, #229 $plugin: a runtime of 0.1.0's days, which says $says, gets that layout, and DEL succeeds",
  async ({ plugin, keys }) => {
    await using stage = await Stage.create(plugin)
    const { attachment } = await stage.attach({ keys })
    const { ip4, ...others } = (await succeed(attachment.run("ADD"))).json as AnyResult
    expect(ip4?.ip).toMatch(/^\d+\.\d+\.\d+\.\d+\/\d+$/)
    expect(others).toMatchObject({ cniVersion: "0.1.0", dns: {} })
    expect(Object.keys(others).filter((key) => !["cniVersion", "dns", "ip6"].includes(key))).toEqual([])
    expect(await attachment.run("DEL")).toMatchObject({ exitCode: 0, stdout: "" })
  },
)

// These calls end before the plugin uses the kernel, so the tests need no features.
test.each(pluginsAs())(
  "#1, #2, #6 %s: a version that it does not speak is code 1, and nothing happens",
  async (plugin) => {
    await using stage = await Stage.create(plugin)
    const { attachment, pod } = await stage.attach()
    const [before, inside] = [await takeSnapshot(stage.host), await takeSnapshot(pod)]
    for (const verb of ["ADD", "DEL", "CHECK", "GC", "STATUS"] as const) {
      const { code, cniVersion } = await fail(
        attachment.run(verb, { cniVersion: "1.2.0", "cni.dev/valid-attachments": [] }),
      )
      expect({ verb, code, cniVersion }).toEqual({ verb, code: 1, cniVersion: "1.2.0" })
    }
    expectUnchanged(before, await takeSnapshot(stage.host))
    expectUnchanged(inside, await takeSnapshot(pod))
  },
)

test.each(pluginsAs())("#39, #60 %s: VERSION tells all versions, without any other variable", async (plugin) => {
  const asked = await runProgram([join(builtPlugins, plugin)], { env: { CNI_COMMAND: "VERSION" } })
  expect(asked).toMatchObject({ exitCode: 0, stderr: "" })
  expect(JSON.parse(asked.stdout)).toEqual({ cniVersion: "1.1.0", supportedVersions: versions })
})

test.each(pluginsAs())("#89 %s: without a command it introduces itself on stderr, and ends with 0", async (plugin) => {
  const { stdout, stderr, exitCode } = await runProgram([join(builtPlugins, plugin)], { env: {} })
  expect({ stdout, exitCode }).toEqual({ stdout: "", exitCode: 0 })
  const [first, ...more] = stderr.split("\n")
  // nerdctl reads this line and requires at least 1.7.1 of firewall. Other programs read it too.
  const [, name, major, minor] = /^CNI ([a-z-]+) plugin v(\d+)\.(\d+)\.\d+$/.exec(first ?? "") ?? []
  expect(name).toBe(plugin)
  expect(Number(major) * 1000 + Number(minor)).toBeGreaterThanOrEqual(1009)
  expect(more).toEqual([
    expect.stringContaining(`cni-plugins v${version}, `),
    expect.stringMatching(/^CNI protocol versions supported: 0\.1\.0, .*, 1\.1\.0$/),
    "",
  ])
})

test.each(pluginsAs())(
  "#95 %s: ADD and DEL on the namespace that it runs in are code 8, and nothing happens",
  async (plugin) => {
    await using stage = await Stage.create(plugin)
    const { attachment } = await stage.attach()
    const before = await takeSnapshot(stage.host)
    for (const verb of ["ADD", "DEL"] as const) {
      expect((await fail(attachment.run(verb, {}, { netns: stage.host.path }))).code).toBe(8)
    }
    expectUnchanged(before, await takeSnapshot(stage.host))
  },
)

testPlugins(
  pluginsAs(),
  "#3, #95 %s: DEL by the number of a process that ended, and that one of the host has by now, cleans up and leaves the host alone, and says so on stderr",
  async (plugin) => {
    await using stage = await Stage.create(plugin)
    const { host } = stage
    await stage.settle()
    const { attachment, pod } = await stage.attach()
    const before = await takeSnapshot(host)
    await attachment.add()
    const [pid] = await namespacePids(host.name)
    const netns = `/proc/${pid}/ns/net`
    const { stdout, stderr } = await succeed(attachment.run("DEL", {}, { netns }))
    expect(stdout).toBe("")
    expect(stderr).toContain(`"${netns}" is now the host's namespace`)
    const isLeft = (change: Change) => isAllocationTrace(change) || isLeftToKernel(plugin, change)
    expectUnchanged(before, await takeSnapshot(host), isLeft)
    expect((await fail(attachment.run("ADD", {}, { netns }))).code).toBe(8)
    expectUnchanged(before, await takeSnapshot(host), isLeft)
    await succeed(attachment.run("DEL", {}, { netns: pod.path }))
  },
)

test("#95 bridge: the IPAM plugin of the other suite is asked by such a DEL, and releases", async () => {
  await using stage = await Stage.create("bridge")
  const { host } = stage
  const { attachment } = await stage.attach({ cniVersion: "1.0.0" })
  const path = "/usr/lib/cni"
  await succeed(attachment.run("ADD", {}, { path }))
  const [pid] = await namespacePids(host.name)
  await succeed(attachment.run("DEL", {}, { path, netns: `/proc/${pid}/ns/net` }))
  expect((await host.exec("ls", ["/var/lib/cni/networks/lab"])).stdout).not.toContain("10.22.0.2")
})

test.each([...pluginsAs("interface", "loopback"), "tuning"])(
  "#44, #97 %s: a namespace that does not exist is neither the own one to ADD nor code 3, and it is fine with DEL",
  async (plugin) => {
    await using stage = await Stage.create(plugin)
    const { attachment } = await stage.attach()
    const before = await takeSnapshot(stage.host)
    const netns = "/run/netns/no-such"
    const { code, msg } = await fail(attachment.run("ADD", {}, { netns }))
    expect({ code, msg }).toEqual({ code: 4, msg: `Cannot use "${netns}" as CNI_NETNS: it does not exist` })
    expectUnchanged(before, await takeSnapshot(stage.host))
    await succeed(attachment.run("DEL", {}, { netns }))
  },
)

test("#44, #97 tuning: nor is it where there is nothing to set", async () => {
  await using stage = await Stage.create("tuning")
  const { attachment } = await stage.attach({ keys: { sysctl: undefined, txQLen: undefined } })
  const { code, msg } = await fail(attachment.run("ADD", {}, { netns: "/run/netns/no-such" }))
  expect({ code, msg }).toEqual({ code: 4, msg: 'Cannot use "/run/netns/no-such" as CNI_NETNS: it does not exist' })
})

testPlugins(
  [...pluginsAs("interface", "loopback"), "tuning"],
  "#44 %s: CHECK of a namespace that no longer exists is not code 3, since leases and rules are left to clean up",
  async (plugin) => {
    await using stage = await Stage.create(plugin)
    const { attachment, pod } = await stage.attach()
    const result = await attachment.add()
    await stage.host.removeContainer(pod)
    expect((await fail(attachment.check(result))).code).not.toBe(3)
  },
)
