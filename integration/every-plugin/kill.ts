import { afterAll, beforeAll, expect } from "bun:test"
import { join } from "node:path"
import { type Attached, builtPlugins, CProgram, pluginEnv, pluginRow, type Stage } from "../lab/mod.ts"

/** As shells and `kill-at` tell that SIGKILL has ended a program. */
const killed = 128 + 9

let killAt: CProgram

/** Builds the program that kills others, for the tests of a file; to be called by each file that uses `isKilled`. */
export function useKillAt(): void {
  beforeAll(async () => {
    killAt = await CProgram.build(join(import.meta.dir, "kill-at.c"))
  })
  afterAll(() => killAt[Symbol.asyncDispose]())
}

/** How many system calls lie between two kills: 1, and more where another plugin on the same scaffold shows each of them. */
export function killStep(plugin: string): number {
  return pluginRow(plugin).like === undefined ? 1 : 40
}

/** At which system calls a plugin is killed, for a title. */
export function eachKilled(plugin: string): string {
  return killStep(plugin) === 1 ? "any system call" : `every ${killStep(plugin)}th system call`
}

/** Runs a verb and kills it at its n-th system call. Whether it lived that long. */
export async function isKilled(stage: Stage, at: Attached, verb: "ADD" | "DEL", nth: number): Promise<boolean> {
  const bin = `${builtPlugins}/${stage.plugin}`
  const env = pluginEnv({ bin, verb, containerId: at.pod.name, netns: at.pod.path, ifName: at.ifName })
  const options = { env, input: JSON.stringify(at.attachment.config) }
  const output = await stage.host.tryExec(killAt.path, [String(nth), bin], options)
  if (output.exitCode !== killed) expect(output).toMatchObject({ exitCode: 0 })
  return output.exitCode === killed
}

/** An attachment that was there once: what a first ADD leaves on purpose is there already. */
export async function settled(stage: Stage): Promise<Attached> {
  await stage.settle()
  const at = await stage.attach()
  await at.attachment.add()
  await at.attachment.del()
  return at
}
