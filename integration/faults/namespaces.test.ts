import { expect } from "bun:test"
import {
  expectUnchanged,
  isAllocationTrace,
  isLeftToKernel,
  pluginsAs,
  Stage,
  takeSnapshot,
  testPlugins,
} from "../lab/mod.ts"

testPlugins(
  pluginsAs(),
  "%s: DEL by a path that is another container's by now leaves that one alone, and the host is cleaned up",
  async (plugin) => {
    await using stage = await Stage.create(plugin)
    const { host } = stage
    await stage.settle()
    const other = await stage.attach()
    await other.attachment.add()
    const one = await stage.attach()
    const before = await takeSnapshot(host)
    await one.attachment.add()
    const inside = await takeSnapshot(other.pod)
    await one.attachment.del({}, { netns: other.pod.path })
    expectUnchanged(inside, await takeSnapshot(other.pod))
    expectUnchanged(
      before,
      await takeSnapshot(host),
      (change) => isAllocationTrace(change) || isLeftToKernel(plugin, change),
    )
    expect(await one.attachment.run("DEL")).toMatchObject({ exitCode: 0 })
    expectUnchanged(before, await takeSnapshot(host), isAllocationTrace)
  },
)
