import { expect } from "bun:test"
import { pluginsAs, TemporaryDirectory, testPlugin } from "../lab/mod.ts"
import { ChainHost, chainOf, nothingValid } from "./chain.ts"
import { killAtCall, useKillAt } from "./killed.ts"
import { asBefore } from "./recoveries.ts"

useKillAt()

/**
 * Matches system calls that create a lasting interface, as strace(1) prints them. The numbers match messages to another
 * namespace, which strace does not decode.
 */
const makes = /RTM_NEWLINK, nlmsg_flags=[^,]*NLM_F_CREATE|nlmsg_type=0x10 [^,]*, nlmsg_flags=[^,]*0x600|TUNSETPERSIST/

for (const plugin of pluginsAs("interface")) {
  testPlugin(
    plugin,
    `${plugin}: an ADD killed at the moment that its interface is there leaves nothing behind GC`,
    async () => {
      await using scene = await ChainHost.create(chainOf(plugin))
      await using directory = await TemporaryDirectory.create("cni-killed")
      const trace = directory.join("trace")
      const [add] = scene.calls("ADD")
      await add?.attachment.run("ADD", {}, { under: ["strace", "-qq", "-o", trace] })
      await scene.del()
      const calls = (await Bun.file(trace).text()).split("\n").slice(1) // without execve(2)
      const nth = calls.findIndex((line) => makes.test(line)) + 1
      expect(nth).toBeGreaterThan(0)
      const { exitCode } = (await add?.attachment.run("ADD", {}, { under: killAtCall("after", nth) })) ?? {}
      expect(exitCode).toBe(128 + 9)
      expect(await asBefore(scene)).not.toBe("")
      await add?.attachment.run("GC", nothingValid)
      expect(await asBefore(scene)).toBe("")
    },
    { forEachKind: true },
  )
}
