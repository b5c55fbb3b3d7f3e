import { expect } from "bun:test"
import { chmod } from "node:fs/promises"
import {
  type Attached,
  builtPlugins,
  type PluginCall,
  type PluginResult,
  pluginsAs,
  runTraced,
  Stage,
  succeed,
  TemporaryDirectory,
  testPlugins,
} from "../lab/mod.ts"

/** Returns the system calls of a plugin that contain the path of the container's namespace. */
async function callsByPath({ attachment, pod }: Attached, verb: PluginCall["verb"], keys: object) {
  const { output, text } = await runTraced(attachment, verb, ["trace=%file"], keys)
  expect({ verb, stdout: output.stdout, exitCode: output.exitCode }).toMatchObject({ exitCode: 0 })
  const lines = text.split("\n").filter((line) => line.includes(`"${pod.path}"`))
  return { output, calls: lines.map((line) => line.replace(/^\d+ +/, "").replace(/\(.*/, "")) }
}

testPlugins(
  pluginsAs(),
  "%s: ADD, CHECK and DEL look at the path of the namespace once: what was compared is what is worked on",
  async (plugin) => {
    await using stage = await Stage.create(plugin)
    const one = await stage.attach()
    const added = await callsByPath(one, "ADD", {})
    const prevResult = JSON.parse(added.output.stdout) as PluginResult
    const checked = await callsByPath(one, "CHECK", { prevResult })
    const deleted = await callsByPath(one, "DEL", { prevResult })
    for (const { calls } of [added, checked, deleted]) expect(calls).toEqual([expect.stringMatching(/^open(at)?$/)])
  },
)

testPlugins(
  pluginsAs("interface"),
  "%s: a path that leads elsewhere while CHECK asks its IPAM plugin does not lead CHECK elsewhere",
  async (plugin) => {
    await using stage = await Stage.create(plugin)
    await using directory = await TemporaryDirectory.create()
    const { attachment, pod } = await stage.attach()
    const other = await stage.host.addContainer()
    const prevResult = await attachment.add()
    const script = `#!/bin/sh\n/usr/bin/mount --bind ${other.path} ${pod.path}\n`
    await Bun.write(directory.join("swap"), script)
    await chmod(directory.join("swap"), 0o755)
    const ipam = { type: "swap" }
    const path = `${builtPlugins}:${directory.path}`
    await succeed(attachment.run("CHECK", { prevResult, ipam }, { path }))
    const asked = await stage.host.exec("stat", ["-c", "%i", pod.path])
    expect(asked.stdout).toBe((await stage.host.exec("stat", ["-c", "%i", other.path])).stdout) // the path now leads to the other namespace
  },
)
