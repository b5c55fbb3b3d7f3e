import { afterAll, beforeAll, expect } from "bun:test"
import { join } from "node:path"
import {
  type Attached,
  builtPlugins,
  CProgram,
  expectUnchanged,
  isAllocationTrace,
  pluginEnv,
  pluginsAs,
  Stage,
  succeed,
  takeSnapshot,
  testPlugin,
} from "../lab/mod.ts"

/** As shells and `kill-at` tell that SIGKILL has ended a program. */
const killed = 128 + 9

let killAt: CProgram
beforeAll(async () => {
  killAt = await CProgram.build(join(import.meta.dir, "kill-at.c"))
})
afterAll(() => killAt[Symbol.asyncDispose]())

/** Runs a verb and kills it at its n-th system call. Whether it lived that long. */
async function isKilled(stage: Stage, at: Attached, verb: "ADD" | "DEL", nth: number): Promise<boolean> {
  const bin = `${builtPlugins}/${stage.plugin}`
  const env = pluginEnv({ bin, verb, containerId: at.pod.name, netns: at.pod.path, ifName: at.ifName })
  const options = { env, input: JSON.stringify(at.attachment.config) }
  const output = await stage.host.tryExec(killAt.path, [String(nth), bin], options)
  if (output.exitCode !== killed) expect(output).toMatchObject({ exitCode: 0 })
  return output.exitCode === killed
}

/** An attachment that was there once: what a first ADD leaves on purpose is there already. */
async function settled(stage: Stage): Promise<Attached> {
  await stage.settle()
  const at = await stage.attach()
  await at.attachment.add()
  await at.attachment.del()
  return at
}

for (const plugin of pluginsAs()) {
  testPlugin(
    plugin,
    `${plugin}: an ADD killed at any system call leaves nothing behind the next DEL`,
    async () => {
      await using stage = await Stage.create(plugin)
      const at = await settled(stage)
      const before = await takeSnapshot(stage.host)
      const inside = await takeSnapshot(at.pod)
      let nth = 1
      for (; await isKilled(stage, at, "ADD", nth); nth++) {
        await at.attachment.del()
        expectUnchanged(before, await takeSnapshot(stage.host), isAllocationTrace)
        expectUnchanged(inside, await takeSnapshot(at.pod))
      }
      expect(nth).toBeGreaterThan(10)
    },
    300_000,
  )

  testPlugin(
    plugin,
    `${plugin}: a DEL killed at any system call is finished by the next`,
    async () => {
      await using stage = await Stage.create(plugin)
      const at = await settled(stage)
      const before = await takeSnapshot(stage.host)
      const inside = await takeSnapshot(at.pod)
      for (let nth = 1, goOn = true; goOn; nth++) {
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
