import { expect } from "bun:test"
import { fail, pluginsAs, Stage, succeed, testPlugins } from "../lab/mod.ts"

const networks = "/var/lib/cni/networks"
const plugins = [...pluginsAs("interface"), "host-local"]

testPlugins(
  plugins,
  "%s: DEL under an empty mount over the store says what may stay reserved; without the mount a DEL releases it",
  async (plugin) => {
    await using stage = await Stage.create(plugin)
    const { host } = stage
    const { attachment, pod } = await stage.attach()
    const prevResult = await attachment.add()
    const [{ address } = { address: "" }] = prevResult.ips
    const leases = async () => (await host.exec("find", [networks, "-name", "10.*"])).stdout
    await host.exec("mount", ["-t", "tmpfs", "none", networks])
    const hidden = await succeed(attachment.run("DEL", { prevResult }))
    for (const part of [`${networks}/lab`, pod.name, address, "cni ipam release", "cni install --tool-dir"])
      expect(hidden.stderr).toContain(part)
    expect(await leases()).toBe("")
    await host.exec("umount", [networks])
    expect(await leases()).toBe(`${networks}/lab/${address.replace(/\/.*/, "")}\n`)
    expect((await succeed(attachment.run("DEL", { prevResult }))).stderr).toBe("")
    expect(await leases()).toBe("")
  },
)

testPlugins(plugins, "%s: DEL of what was never added, and a second DEL, say nothing", async (plugin) => {
  await using stage = await Stage.create(plugin)
  const { attachment } = await stage.attach()
  expect((await succeed(attachment.run("DEL"))).stderr).toBe("")
  const prevResult = await attachment.add()
  for (let time = 0; time < 2; time++) {
    expect((await succeed(attachment.run("DEL", { prevResult }))).stderr).toBe("")
  }
})

testPlugins(
  plugins,
  "%s: ADD on a read-only store says that no file can be made, not what went wrong then",
  async (plugin) => {
    await using stage = await Stage.create(plugin)
    const { host } = stage
    const [first, second] = [await stage.attach(), await stage.attach()]
    await first.attachment.add()
    await host.exec("mount", ["-o", "remount,ro", "/var/lib/cni"])
    const { msg, details } = await fail(second.attachment.run("ADD"))
    expect(`${msg}; ${details}`).toMatch(/Cannot reserve addresses in "[^"]+"; open .*Read-only file system \(EROFS\)$/)
  },
)
