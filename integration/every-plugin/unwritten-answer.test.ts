import { expect } from "bun:test"
import {
  builtPlugins,
  casesOf,
  expectUnchanged,
  isAllocationTrace,
  pluginEnv,
  pluginsAs,
  Stage,
  takeSnapshot,
  testPlugins,
} from "../lab/mod.ts"

const outputs = [
  { output: "a full disk", redirect: (bin: string) => `exec ${bin} > /dev/full`, forEachKind: true },
  { output: "a pipe without a reader", redirect: (bin: string) => `exec 3> >(exec true); sleep 0.2; exec ${bin} >&3` },
]

testPlugins(
  casesOf(pluginsAs(), outputs),
  "$plugin: an ADD whose answer goes to $output is undone",
  async ({ plugin, redirect }) => {
    await using stage = await Stage.create(plugin)
    await stage.settle()
    const { attachment, pod, ifName } = await stage.attach()
    const before = await takeSnapshot(stage.host)
    const inside = await takeSnapshot(pod)
    const bin = `${builtPlugins}/${plugin}`
    const env = pluginEnv({ bin, verb: "ADD", containerId: pod.name, netns: pod.path, ifName })
    const options = { env, input: JSON.stringify(attachment.config) }
    const output = await stage.host.tryExec("bash", ["-c", redirect(bin)], options)
    expect(output.exitCode).toBe(1)
    expect(output.stderr).toMatch(/Cannot write the result to stdout.*(ENOSPC|EPIPE)/s)
    expectUnchanged(before, await takeSnapshot(stage.host), isAllocationTrace)
    if (stage.role !== "loopback") expectUnchanged(inside, await takeSnapshot(pod)) // `lo` stays up, because it may have been up before
    await attachment.del()
  },
)
