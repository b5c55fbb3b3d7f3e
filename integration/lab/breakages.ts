import { expect } from "bun:test"
import { Attachment, fail, isAllocationTrace, isSharedBridge, newest } from "./attachment.ts"
import { testWhereItRuns } from "./cases.ts"
import type { HostNamespace } from "./host-namespace.ts"
import type { ContainerNamespace } from "./namespace.ts"
import type { PluginCall } from "./run-plugin.ts"
import type { Change } from "./snapshot/diff.ts"
import { expectUnchanged, takeSnapshot } from "./snapshot/snapshot.ts"
import { hostFor } from "./stage.ts"

/** A host or configuration that makes one step of ADD fail, and the expected error. */
export interface Breakage {
  step: string
  /** Prepares the host before the first snapshot. */
  setUp?: (host: HostNamespace, pod: ContainerNamespace) => Promise<unknown>
  keys: object
  code: number
  says: string | RegExp
  /**
   * Whether the error makes every ADD fail and can be detected without a container, so that STATUS must report it too.
   */
  everyAdd: boolean
}

/**
 * Defines a test for each breakage: ADD fails as expected, and leaves no change except a bridge and host-local's files.
 * `network` returns the configuration with a breakage's keys.
 */
export function testBreakages(
  network: (keys: object) => Record<string, unknown>,
  breakages: readonly Breakage[],
  call: Partial<PluginCall> = {},
): void {
  const plugin = String(network({}).type)
  for (const { step, setUp, keys, code, says, everyAdd } of breakages) {
    const title = `#36 ${plugin}: when ${step}, ADD says so and everything is as before, and so does STATUS where it can know`
    testWhereItRuns(plugin, title, async () => {
      await using host = await hostFor(plugin)
      const pod = await host.addContainer()
      await setUp?.(host, pod)
      const before = await takeSnapshot(host)
      const inside = await takeSnapshot(pod).catch(() => undefined)
      const config = network(keys)
      const error = await fail(new Attachment(host, pod, config, call).run("ADD"))
      expect(`${error.msg}; ${error.details ?? ""}`).toMatch(says)
      expect(error.code).toBe(code)
      expect(error.cniVersion).toBe(String(config.cniVersion))
      const isLeft = (change: Change) => isAllocationTrace(change) || (plugin === "bridge" && isSharedBridge(change))
      expectUnchanged(before, await takeSnapshot(host), isLeft)
      if (inside) expectUnchanged(inside, await takeSnapshot(pod))
      if (!everyAdd) return
      const status = new Attachment(host, pod, { ...config, cniVersion: newest }, call).run("STATUS")
      const refusal = await fail(status)
      expect(`${refusal.msg}; ${refusal.details ?? ""}`).toMatch(says)
      expect([7, 50]).toContain(refusal.code) // code 7 for errors of the configuration alone
      expectUnchanged(before, await takeSnapshot(host), isLeft)
    })
  }
}
