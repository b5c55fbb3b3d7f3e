import { expect, test } from "bun:test"
import type { AttachingPlugin } from "../attaching-plugins.ts"
import { Attachment, fail, isAllocationTrace, newest } from "../attachment.ts"
import { HostNamespace } from "../host-namespace.ts"
import { expectUnchanged, takeSnapshot } from "../snapshot/snapshot.ts"
import { type Breakage, commonBreakages } from "./breakages.ts"

/** Tests that an ADD that fails leaves nothing; with breakages of the plugin's own, and keys for a call. */
export function testUndo(plugin: AttachingPlugin, own: readonly Breakage[], call: { path?: string } = {}): void {
  test.each([...commonBreakages(plugin), ...own])(
    "#36 when $step, ADD says so and everything is as before, and so does STATUS where it can know",
    async ({ setUp, keys, code, says, everyAdd }) => {
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
      if (!everyAdd) return
      const status = new Attachment(host, pod, { ...config, cniVersion: newest }, call).run("STATUS")
      const told = await fail(status)
      expect(`${told.msg}; ${told.details ?? ""}`).toContain(says)
      expect([7, 50]).toContain(told.code) // what is wrong with the configuration alone is code 7
      expectUnchanged(before, await takeSnapshot(host), isAllocationTrace)
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
