import { expect } from "bun:test"
import { expectUnchanged, isAllocationTrace, pluginsAs, Stage, succeed, takeSnapshot, testPlugin } from "../lab/mod.ts"
import { eachKilled, isKilled, killStep, settled, useKillAt } from "./kill.ts"

useKillAt()

for (const plugin of pluginsAs()) {
  testPlugin(
    plugin,
    `${plugin}: a DEL killed at ${eachKilled(plugin)} is finished by the next`,
    async () => {
      await using stage = await Stage.create(plugin)
      const at = await settled(stage)
      const before = await takeSnapshot(stage.host)
      const inside = await takeSnapshot(at.pod)
      for (let nth = 1, goOn = true; goOn; nth += killStep(plugin)) {
        await succeed(at.attachment.run("ADD"))
        goOn = await isKilled(stage, at, "DEL", nth)
        await at.attachment.del()
        expectUnchanged(before, await takeSnapshot(stage.host), isAllocationTrace)
        expectUnchanged(inside, await takeSnapshot(at.pod))
        expect(goOn || nth > 10).toBe(true)
      }
    },
    300_000,
  )
}
