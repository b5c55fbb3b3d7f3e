import { expect } from "bun:test"
import { join } from "node:path"
import {
  type Attached,
  builtPlugins,
  type PluginCall,
  type PluginResult,
  pluginEnv,
  pluginsAs,
  Stage,
  TemporaryDirectory,
  testPlugins,
} from "../lab/mod.ts"

/** What one plugin call sends to the kernel's netlink sockets, and receives from them, as strace shows it. */
async function traceOf(stage: Stage, { attachment, pod, ifName }: Attached, verb: PluginCall["verb"], keys: object) {
  await using directory = await TemporaryDirectory.create()
  const trace = directory.join("trace")
  const call: PluginCall = {
    bin: join(builtPlugins, stage.plugin),
    verb,
    containerId: pod.name,
    netns: pod.path,
    ifName,
  }
  const args = ["-f", "-qq", "-o", trace, "-e", "trace=sendto,recvfrom,socket,setsockopt", call.bin]
  const input = JSON.stringify({ ...attachment.config, ...keys })
  const output = await stage.host.tryExec("strace", args, { env: pluginEnv(call), input })
  expect({ verb, stdout: output.stdout, exitCode: output.exitCode }).toMatchObject({ exitCode: 0 })
  const lines = (await Bun.file(trace).text()).split("\n")
  const calls = (pattern: RegExp) => lines.filter((line) => pattern.test(line)).length
  return {
    output,
    sockets: calls(/ socket\(AF_NETLINK/),
    sent: calls(/ sendto\(/),
    received: calls(/ recvfrom\(.*AF_NETLINK/),
    looks: calls(/ recvfrom\(.*MSG_PEEK/),
    timeouts: calls(/ setsockopt\(.*SO_RCVTIMEO/),
  }
}

testPlugins(
  pluginsAs("interface"),
  "%s: ADD and DEL take each answer of the kernel by one call, and wait for none",
  async (plugin) => {
    await using stage = await Stage.create(plugin)
    const one = await stage.attach()
    const added = await traceOf(stage, one, "ADD", {})
    const prevResult = JSON.parse(added.output.stdout) as PluginResult
    const deleted = await traceOf(stage, one, "DEL", { prevResult })
    for (const { sockets, sent, received, looks, timeouts } of [added, deleted]) {
      expect(sockets).toBeGreaterThan(0)
      expect(sent).toBeGreaterThan(0)
      expect(received).toBeGreaterThan(0)
      expect({ looks, timeouts }).toEqual({ looks: 0, timeouts: 0 })
    }
  },
)
