import { afterAll, beforeAll, expect, test } from "bun:test"
import { join } from "node:path"
import { builtPlugins, CProgram, pluginEnv } from "../lab/mod.ts"
import { asBefore, DeviceHost } from "./device.ts"

let killAt: CProgram
beforeAll(async () => {
  killAt = await CProgram.build(join(import.meta.dir, "../every-plugin/kill-at.c"))
})
afterAll(() => killAt[Symbol.asyncDispose]())

test.each(["ADD", "DEL"] as const)(
  "after a %s killed at any system call the next DEL gives the device back as it was",
  async (verb) => {
    await using net = await DeviceHost.create()
    const { pod, attachment } = await net.attach({ ipam: undefined })
    const bin = `${builtPlugins}/host-device`
    const env = pluginEnv({ bin, verb, containerId: pod.name, netns: pod.path, ifName: "eth0" })
    const options = { env, input: JSON.stringify(attachment.config) }
    let nth = 1
    for (let wasKilled = true; wasKilled; nth++) {
      if (verb === "DEL") await attachment.add()
      const { exitCode } = await net.host.tryExec(killAt.path, [String(nth), bin], options)
      wasKilled = exitCode === 128 + 9
      await attachment.del()
      expect(await net.describe()).toEqual(asBefore)
      expect(await pod.json<object[]>("ip", ["-j", "link"])).toHaveLength(1)
    }
    expect(nth).toBeGreaterThan(20)
  },
  300_000,
)
