import { isAllocationTrace, succeed } from "./attachment.ts"
import { Stage } from "./every-plugin.ts"
import type { PluginCall } from "./run-plugin.ts"
import { expectUnchanged, takeSnapshot } from "./snapshot/snapshot.ts"

/**
 * Calls a plugin with every verb, for two attachments, of which one is deleted and the other collected; `call` says how it is
 * run. Throws when a call fails, and when something is left.
 */
export async function liveWhole(plugin: string, call: Partial<PluginCall>): Promise<void> {
  await using stage = await Stage.create(plugin)
  const first = await stage.attach({ call }) // on a host that has never seen a plugin; a bridge stays
  await first.attachment.add()
  await first.attachment.del()
  const [one, other] = [await stage.attach({ call }), await stage.attach({ call })]
  const before = await takeSnapshot(stage.host)
  await succeed(one.attachment.run("VERSION"))
  await succeed(one.attachment.run("STATUS"))
  for (const { attachment } of [one, other]) await attachment.check(await attachment.add())
  await one.attachment.del()
  await succeed(other.attachment.run("GC", { "cni.dev/valid-attachments": [] }))
  await other.attachment.del()
  expectUnchanged(before, await takeSnapshot(stage.host), isAllocationTrace)
}
