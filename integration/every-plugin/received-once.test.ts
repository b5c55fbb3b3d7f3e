import { expect } from "bun:test"
import {
  type Attached,
  type PluginCall,
  type PluginResult,
  pluginsAs,
  runTraced,
  Stage,
  testPlugins,
} from "../lab/mod.ts"

/** Returns the requests and answers of a plugin call on netlink sockets, from strace. */
async function traceOf({ attachment }: Attached, verb: PluginCall["verb"], keys: object) {
  const { output, text } = await runTraced(attachment, verb, ["trace=sendto,recvfrom,socket,setsockopt"], keys)
  expect({ verb, stdout: output.stdout, exitCode: output.exitCode }).toMatchObject({ exitCode: 0 })
  const calls = (pattern: RegExp) => text.split("\n").filter((line) => pattern.test(line)).length
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
    const added = await traceOf(one, "ADD", {})
    const prevResult = JSON.parse(added.output.stdout) as PluginResult
    const deleted = await traceOf(one, "DEL", { prevResult })
    for (const { sockets, sent, received, looks, timeouts } of [added, deleted]) {
      expect(sockets).toBeGreaterThan(0)
      expect(sent).toBeGreaterThan(0)
      expect(received).toBeGreaterThan(0)
      expect({ looks, timeouts }).toEqual({ looks: 0, timeouts: 0 })
    }
  },
)
