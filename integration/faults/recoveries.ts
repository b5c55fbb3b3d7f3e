import { type Change, isLeftToKernel, waitFor } from "../lab/mod.ts"
import type { ChainHost } from "./chain.ts"

/** The steps that must restore the earlier state after a killed call. */
export interface Recovery {
  readonly what: string
  readonly removesContainer?: true
  /** Runs the recovery. Returns the remaining differences. */
  recover(scene: ChainHost): Promise<string>
}

/** Returns the differences on the host and in the container. */
export async function asBefore(scene: ChainHost): Promise<string> {
  return (await scene.hostChanges()) + (await scene.containerChanges())
}

/**
 * Returns the differences after the container has been removed. The kernel deletes the namespace's objects with a
 * delay, and does not return a virtual device to the host.
 */
async function afterContainer(scene: ChainHost): Promise<string> {
  const isDevice = (change: Change) => scene.movesDevice && isLeftToKernel("host-device", change)
  const last = { changes: "" }
  await waitFor(async () => {
    last.changes = await scene.hostChanges(isDevice)
    return last.changes === ""
  }, "the kernel").catch(() => undefined)
  if (last.changes === "") await scene.replaceContainer()
  return last.changes
}

/** Returns a configuration that ADD could not have used: without all optional keys and with other addresses. */
function changed({ cniVersion, name, type, ipam }: { [key: string]: unknown }): object {
  const other = ipam as { type: string } | undefined
  const pool = other?.type === "host-local" ? { ranges: [[{ subnet: "10.99.0.0/24" }]] } : {}
  return { cniVersion, name, type, ...(other ? { ipam: { type: other.type, ...pool } } : {}) }
}

/** The recoveries. Runtimes use the first. */
export const recoveries: readonly Recovery[] = [
  {
    what: "DEL",
    async recover(scene) {
      await scene.del()
      return asBefore(scene)
    },
  },
  {
    what: "DEL with the result of an earlier ADD",
    async recover(scene) {
      await scene.del({ prevResult: scene.answer })
      return asBefore(scene)
    },
  },
  {
    what: "DEL that is not told the namespace, which goes then",
    removesContainer: true,
    async recover(scene) {
      await scene.del({}, { netns: "" })
      await scene.removeContainer()
      return afterContainer(scene)
    },
  },
  {
    what: "DEL after the namespace no longer exists",
    removesContainer: true,
    async recover(scene) {
      await scene.removeContainer()
      await scene.del({ prevResult: scene.answer })
      return afterContainer(scene)
    },
  },
  {
    what: "DEL by a changed configuration",
    async recover(scene) {
      await scene.del({}, {}, changed as (own: object) => object)
      return asBefore(scene)
    },
  },
  {
    what: "GC with no valid attachment",
    async recover(scene) {
      await scene.collect()
      const isInUse = (change: Change) => scene.movesDevice && isLeftToKernel("host-device", change)
      const changes = await scene.hostChanges(isInUse)
      await scene.del()
      return changes + (scene.movesDevice ? await asBefore(scene) : await scene.containerChanges())
    },
  },
]
