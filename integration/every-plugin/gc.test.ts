import { expect, test } from "bun:test"
import {
  type Attached,
  type Change,
  type ContainerNamespace,
  expectUnchanged,
  fail,
  isAllocationTrace,
  isLeftToKernel,
  linkNames,
  pluginRow,
  pluginsAs,
  Stage,
  takeSnapshot,
  testPlugins,
} from "../lab/mod.ts"

/**
 * Reports whether a change is a virtual device in a container. GC deletes interfaces in running containers, but does
 * not move devices of the host back.
 */
const isDeviceInUse = (plugin: string, change: Change) =>
  pluginRow(plugin).role === "device" && isLeftToKernel(plugin, change)

/** Renames a container's interface, as a process in the container may do. */
async function rename(pod: ContainerNamespace, from: string, to: string): Promise<void> {
  await pod.exec("ip", ["link", "set", from, "down"])
  await pod.exec("ip", ["link", "set", from, "name", to])
}

const valid = (...kept: Attached[]) => ({
  "cni.dev/valid-attachments": kept.map(({ pod, ifName }) => ({ containerID: pod.name, ifname: ifName })),
})

testPlugins(
  pluginsAs(),
  "#31, #32, #34 %s: GC removes what is stale of its network, leaves what is listed and what is another network's, and prints nothing",
  async (plugin) => {
    await using stage = await Stage.create(plugin)
    const { host } = stage
    await stage.settle()
    const [kept, foreign] = [await stage.attach(), await stage.attach({ network: "other" })]
    // Stale attachments: one of a container that no longer exists, and a second interface of an existing container.
    const stale = [await stage.attach()]
    if (stage.role !== "loopback") stale.push(await stage.attach({ pod: kept.pod, ifName: "net1" }))
    const results = [await kept.attachment.add(), await foreign.attachment.add()]
    const before = await takeSnapshot(host)
    for (const { attachment } of stale) await attachment.add()
    if (stage.role === "interface") await rename(kept.pod, "net1", "net9")
    expect(await kept.attachment.run("GC", valid(kept))).toMatchObject({ exitCode: 0, stdout: "" })
    const isLeft = (change: Change) => isAllocationTrace(change) || isDeviceInUse(plugin, change)
    expectUnchanged(before, await takeSnapshot(host), isLeft)
    if (stage.role === "interface") expect(await linkNames(kept.pod)).toEqual(["lo", "eth0"])
    for (const [at, { attachment }] of [kept, foreign].entries()) {
      expect(await attachment.check(results[at] ?? {})).toMatchObject({ exitCode: 0, stdout: "" })
    }
  },
  { forEachKind: true },
)

/**
 * An empty list of valid attachments as programs write it. libcni accepts `null` as an empty list, and writes the list
 * under both keys.
 */
const nothingValid = [
  valid(),
  { "cni.dev/valid-attachments": null, "cni.dev/attachments": null },
  { "cni.dev/valid-attachments": null },
]

testPlugins(
  pluginsAs(),
  "#31 %s: GC removes all of its network when the list is empty or null, and nothing when there is none",
  async (plugin) => {
    await using stage = await Stage.create(plugin)
    const { host } = stage
    await stage.settle()
    const { attachment } = await stage.attach()
    const before = await takeSnapshot(host)
    for (const keys of nothingValid) {
      await attachment.add()
      const added = await takeSnapshot(host)
      const unknown = await attachment.run("GC")
      expect(unknown).toMatchObject({ exitCode: 0, stdout: "" })
      expect(unknown.stderr).toContain("nothing was deleted")
      expectUnchanged(added, await takeSnapshot(host))
      expect(await attachment.run("GC", keys)).toMatchObject({ exitCode: 0, stdout: "", stderr: "" })
      expectUnchanged(
        before,
        await takeSnapshot(host),
        (change) => isAllocationTrace(change) || isDeviceInUse(plugin, change),
      )
      await attachment.del() // libcni runs DEL for each attachment before GC
    }
  },
)

test.each(["host-local", "bridge", "ptp"])(
  "#32 %s: GC leaves the addresses that another network has from the same range",
  async (plugin) => {
    await using stage = await Stage.create(plugin)
    const range = { ipam: { type: "host-local", ranges: [[{ subnet: "10.24.0.0/24" }]] } }
    const mine = await stage.attach({ keys: range })
    const theirs = await stage.attach({ network: "other", keys: { ...range, isDefaultGateway: false } })
    const leases = async () => (await stage.host.exec("find", ["/var/lib/cni/networks", "-name", "10.24.*"])).stdout
    await mine.attachment.add()
    const keep = plugin === "ptp" ? { addresses: "10.24.0.3" } : { addresses: "10.24.0.2" }
    const ips = plugin === "ptp" ? { runtimeConfig: { ips: [keep.addresses] } } : {}
    const result = await theirs.attachment.add(ips)
    expect(await mine.attachment.run("GC", valid())).toMatchObject({ exitCode: 0, stdout: "" })
    expect(await leases()).toBe(`/var/lib/cni/networks/other/${keep.addresses}\n`)
    expect(await theirs.attachment.check(result, ips)).toMatchObject({ exitCode: 0 })
  },
)

testPlugins(
  pluginsAs("interface"),
  "#33 %s: GC goes on to links and rules when the addresses cannot be released, and says so",
  async (plugin) => {
    await using stage = await Stage.create(plugin)
    const { host } = stage
    await stage.settle()
    const before = await takeSnapshot(host)
    const stale = await stage.attach()
    await stale.attachment.add()
    const broken = { ...valid(), ipam: { type: "no-such-plugin" } }
    expect((await fail(stale.attachment.run("GC", broken))).msg).toContain("no-such-plugin")
    const isLeft = (change: Change) => isDeviceInUse(plugin, change)
    expectUnchanged(before, await takeSnapshot(host), (change) => change.section === "/var/lib/cni" || isLeft(change))
    expect(await stale.attachment.run("GC", valid())).toMatchObject({ exitCode: 0, stdout: "" })
    expectUnchanged(before, await takeSnapshot(host), (change) => isAllocationTrace(change) || isLeft(change))
  },
)

test("#33 host-local: GC goes on to the other addresses when one cannot be released, and says which", async () => {
  await using stage = await Stage.create("host-local")
  const { host } = stage
  const stale = [await stage.attach(), await stage.attach(), await stage.attach()]
  for (const { attachment } of stale) await attachment.add()
  const stuck = "/var/lib/cni/networks/lab/10.22.0.3"
  await host.exec("mount", ["--bind", stuck, stuck]) // the mount makes it impossible to delete the file
  const error = await fail(stale[0]?.attachment.run("GC", valid()) ?? Promise.reject())
  expect(`${error.msg}; ${error.details}`).toContain(stale[1]?.pod.name ?? "")
  const { stdout } = await host.exec("find", ["/var/lib/cni/networks/lab", "-name", "10.22.*"])
  expect(stdout).toBe(`${stuck}\n`)
})
