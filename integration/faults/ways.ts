import { type Change, isLeftToKernel, waitFor } from "../lab/mod.ts"
import type { ChainHost } from "./chain.ts"

/** How what a killed call has left is taken back. */
export interface Way {
  readonly what: string
  readonly removesContainer?: true
  /** Answers what still differs. */
  recover(scene: ChainHost): Promise<string>
}

/** What of the host and of the container differs. */
export async function asBefore(scene: ChainHost): Promise<string> {
  return (await scene.hostChanges()) + (await scene.containerChanges())
}

/** The kernel removes in its own time what a namespace that no longer exists had; a virtual device of the host it does not give back. */
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

/** A configuration with which nothing could be added as before: all that a plugin may be without is left out, and the addresses are others. */
function changed({ cniVersion, name, type, ipam }: { [key: string]: unknown }): object {
  const other = ipam as { type: string } | undefined
  const pool = other?.type === "host-local" ? { ranges: [[{ subnet: "10.99.0.0/24" }]] } : {}
  return { cniVersion, name, type, ...(other ? { ipam: { type: other.type, ...pool } } : {}) }
}

/** What comes after a call that was killed: the first is what a runtime does. */
export const ways: readonly Way[] = [
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
