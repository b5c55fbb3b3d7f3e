import { expect } from "bun:test"
import { expectUnchanged, isAllocationTrace, pluginsAs, Stage, takeSnapshot, testPlugin } from "../lab/mod.ts"
import { eachKilled, isKilled, killStep, settled, useKillAt } from "./kill.ts"

useKillAt()

for (const plugin of pluginsAs()) {
  testPlugin(
    plugin,
    `${plugin}: an ADD killed at ${eachKilled(plugin)} leaves nothing behind the next DEL`,
    async () => {
      await using stage = await Stage.create(plugin)
      const at = await settled(stage)
      const before = await takeSnapshot(stage.host)
      const inside = await takeSnapshot(at.pod)
      let nth = 1
      for (; await isKilled(stage, at, "ADD", nth); nth += killStep(plugin)) {
        await at.attachment.del()
        expectUnchanged(before, await takeSnapshot(stage.host), isAllocationTrace)
        expectUnchanged(inside, await takeSnapshot(at.pod))
      }
      expect(nth).toBeGreaterThan(10)
    },
    300_000,
  )
}
