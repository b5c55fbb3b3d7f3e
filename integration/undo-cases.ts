import { expect, test } from "bun:test"
import type { AttachingPlugin } from "./attaching-plugins.ts"
import { Attachment, fail, isAllocationTrace } from "./attachment.ts"
import { type Breakage, commonBreakages } from "./breakages.ts"
import { expectUnchanged, HostNamespace, takeSnapshot } from "./mod.ts"

/** Tests that an ADD that fails leaves nothing; with breakages of the plugin's own, and keys for a call. */
export function testUndo(plugin: AttachingPlugin, own: readonly Breakage[], call: { path?: string } = {}): void {
  test.each([...commonBreakages(plugin), ...own])(
    "when $step, ADD says so and everything is as before",
    async ({ setUp, keys, code, says }) => {
      await using host = await HostNamespace.create()
      const pod = await host.addContainer()
      await setUp?.(host, pod)
      const before = await takeSnapshot(host)
      const inside = await takeSnapshot(pod).catch(() => undefined)
      const config = plugin.network(keys)
      const error = await fail(new Attachment(host, pod, config, call).run("ADD"))
      expect(`${error.msg}; ${error.details ?? ""}`).toContain(says)
      expect(error.code).toBe(code)
      expect(error.cniVersion).toBe(String(config.cniVersion))
      expectUnchanged(before, await takeSnapshot(host), isAllocationTrace)
      if (inside) expectUnchanged(inside, await takeSnapshot(pod))
    },
  )

  test("an ADD that is repeated fails, and what the first one made stays", async () => {
    await using host = await HostNamespace.create()
    const pod = await host.addContainer()
    const attachment = new Attachment(host, pod, plugin.network(plugin.everything))
    await attachment.add()
    const before = await takeSnapshot(host)
    const inside = await takeSnapshot(pod)
    expect((await fail(attachment.run("ADD"))).msg).toContain('"eth0"')
    expectUnchanged(before, await takeSnapshot(host))
    expectUnchanged(inside, await takeSnapshot(pod))
  })
}
