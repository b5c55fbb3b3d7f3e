import { afterAll, beforeAll, expect } from "bun:test"
import { buildLauncher } from "../executable/launcher.ts"
import {
  type CProgram,
  expectUnchanged,
  fail,
  isAllocationTrace,
  isLong,
  type PluginCall,
  type PluginOutput,
  pluginRow,
  pluginsAs,
  SmallCgroup,
  Stage,
  succeed,
  takeSnapshot,
  testPlugin,
  testWith,
} from "../lab/mod.ts"
import { useTally } from "./figures.ts"
import { bareRoot, commandWithout, liveWhole, type Mean, mute, needed, needless, refused } from "./means.ts"

const count = useTally()

let launcher: CProgram
beforeAll(async () => {
  launcher = await buildLauncher()
})
afterAll(() => launcher[Symbol.asyncDispose]())

/** Sets of conditions that apply at once, such as missing resources. A plugin must do all its work under each set. */
const together = [
  ["PR_SET_MDWE, which refuses new code", "32 MB of address space", "16 descriptors", "a stack of 256 KiB"].concat([
    "clocks that stand elsewhere",
    "no PATH",
    "the system calls of host/seccomp.json",
    "a clock that can be read by system calls alone",
    bareRoot,
  ]),
  ["an unlimited stack", "an empty PATH", "a read-only root", "a closed stderr"],
]

for (const plugin of pluginsAs()) {
  for (const names of isLong ? Object.keys(needless).map((name) => [name]) : together) {
    testPlugin(plugin, `${plugin} does all its work with ${names.join(", ")}`, async () => {
      const means = names.flatMap((name) => needless[name] ?? [])
      const bin = names.includes(bareRoot) ? { bin: `/opt/cni/bin/${plugin}` } : {}
      const under = commandWithout(means, launcher.path, plugin)
      await count(`${plugin}, all verbs, with what no plugin needs`, () => liveWhole(plugin, { ...bin, under }))
    })
  }
}

for (const plugin of pluginsAs()) {
  const { like, staged, needs = [] } = pluginRow(plugin)
  if (like !== undefined || staged === false) continue
  testWith(["memory_cgroup", ...needs], `${plugin} does all its work in a memory cgroup of 16 MB`, async () => {
    await using cgroup = await SmallCgroup.create()
    const under = commandWithout([{ options: () => ["-g", cgroup.door] }], launcher.path, plugin)
    await count(`${plugin}, all verbs, with what no plugin needs`, () => liveWhole(plugin, { under }))
    expect(await cgroup.peak()).toBeGreaterThan(1 << 18)
  })
}

/** Throws unless a plugin call succeeded, reported its failure in one sentence, or could not print anything. */
async function expectClear(output: PluginOutput, isMute: boolean): Promise<void> {
  if (output.exitCode === 0) return
  if (isMute) {
    expect({ exitCode: output.exitCode, stdout: output.stdout }).toEqual({ exitCode: 1, stdout: "" })
    return
  }
  const { msg, details = "" } = await fail(Promise.resolve(output))
  expect(msg).toMatch(
    /^(Cannot |error reading from stdin: |Check of |CHECK |error calling |failed to find plugin |\d+ steps failed: )/,
  )
  expect(`${msg} ${details}`).not.toMatch(/TypeError|RangeError|ReferenceError|undefined/)
}

/**
 * Runs every verb of a plugin without one resource. Each verb must succeed or report the failure, and a failed ADD must
 * leave no change.
 */
async function liveOrSay(plugin: string, name: string, mean: Mean): Promise<void> {
  const under = commandWithout([mean], launcher.path, plugin)
  await using stage = await Stage.create(plugin)
  await stage.settle()
  const { attachment, pod } = await stage.attach()
  const before = await takeSnapshot(stage.host)
  const inside = await takeSnapshot(pod)
  const isMute = mute.has(name) || name.startsWith("write ")
  const run = async (verb: PluginCall["verb"], keys: object = {}) => {
    const output = await attachment.run(verb, keys, { under })
    await expectClear(output, isMute)
    return output
  }
  await run("STATUS")
  const added = await run("ADD")
  if (isMute) expect(added.exitCode).toBe(1)
  if (added.exitCode !== 0) {
    expectUnchanged(before, await takeSnapshot(stage.host), isAllocationTrace)
    if (stage.role !== "loopback") expectUnchanged(inside, await takeSnapshot(pod))
  }
  const prevResult = added.exitCode === 0 ? (added.json as object) : await attachment.add()
  await run("CHECK", { prevResult })
  await run("GC", {
    "cni.dev/valid-attachments": [
      { containerID: pod.name, ifname: "eth0" },
      { containerID: pod.name, ifname: "lo" },
    ],
  })
  await run("DEL")
  await attachment.del()
  await succeed(attachment.run("STATUS")) // removes the remains that DEL could not remove
  expectUnchanged(before, await takeSnapshot(stage.host), isAllocationTrace)
}

const lacks = Object.entries({ ...needed, ...refused })

for (const [turn, plugin] of pluginsAs().entries()) {
  // Each plugin gets a sample of the resources, and all plugins together get every resource.
  const sample = lacks.filter((_, at) => isLong || at % pluginsAs().length === turn)
  for (const [name, mean] of sample) {
    testPlugin(
      plugin,
      `${plugin} with ${name}: each verb does its work or says what it cannot, and changes nothing`,
      async () => {
        await count(`${plugin}, all verbs, without what may be needed`, () => liveOrSay(plugin, name, mean))
      },
    )
  }
}
