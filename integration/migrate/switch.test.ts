import { afterAll, beforeAll, expect, test } from "bun:test"
import { builtPlugins, expectUnchanged, extent, isAllocationTrace, scaleTimeout } from "../lab/mod.ts"
import { FlowMeter } from "../reconcile/listener-lab.ts"
import { MigrateLab, type Published } from "./migrate-lab.ts"

let meter: FlowMeter
beforeAll(async () => {
  meter = await FlowMeter.build()
})
afterAll(() => meter[Symbol.asyncDispose]())

/** The number of containers that the Go plugins attach, and of those that the plugins of this suite attach. */
const COUNT = extent(4, 30)

const half = (all: readonly Published[]) => [all.slice(0, all.length / 2), all.slice(all.length / 2)] as const

test("what an ADD has made that was under way during the switch back is moved by the next call", async () => {
  await using lab = await MigrateLab.create()
  await lab.report(["--apply"])
  await lab.add(1)
  await lab.report(["--back"], 3)
  const there = lab.node.binDir
  lab.node.binDir = builtPlugins // like a runtime that searched the plugin before the switch
  const [late] = await lab.add(1)
  lab.node.binDir = there
  if (!late) throw new Error("no container")
  const { moved, remains } = await lab.report(["--back"], 3)
  expect(moved.map((one) => one.replace(/^.*: /, ""))).toEqual(["masquerade", "published ports", "firewall rules"])
  expect(remains.filter(({ what }) => what.startsWith("table"))).toEqual([])
  const { stdout } = await lab.node.host.exec("find", ["/var/lib/cni/networks", "-mindepth", "2", "-name", ".*"])
  expect(stdout).toBe("") // host-local's index is deleted
  await lab.remove([late])
})

test(
  "a node goes from the Go plugins to these and back with its pods running: no flow is lost, and nothing is left",
  async () => {
    await using lab = await MigrateLab.create()
    await lab.remove(await lab.add(1)) // creates the bridge, chains and sysctls that stay
    const before = await lab.snapshot()
    const theirs = await lab.add(COUNT)
    const there = await lab.counting(meter, theirs.slice(-2), () => lab.report(["--apply"]))
    expect(there).toMatchObject([{ lost: 0 }, { lost: 0 }])

    const [deleted, kept] = half(theirs)
    await lab.remove(deleted)
    const ours = await lab.add(COUNT)
    for (const { pod, hostPort } of kept)
      await lab.call("check", pod, JSON.stringify({ portMappings: [{ hostPort, containerPort: 80, protocol: "tcp" }] }))

    const back = await lab.counting(meter, ours.slice(0, 2), () => lab.report(["--back"], 3))
    expect(back).toMatchObject([{ lost: 0 }, { lost: 0 }])
    expect(await lab.files()).toEqual(await lab.goFiles())
    const { stdout: tables } = await lab.node.host.exec("nft", ["list", "tables"])
    expect(tables).not.toContain("cni_")

    await lab.remove([...ours, ...kept])
    expect(await lab.report(["--back"])).toMatchObject({ remains: [], failed: [] })
    expectUnchanged(before, await lab.snapshot(), isAllocationTrace)
  },
  scaleTimeout(900_000),
)
