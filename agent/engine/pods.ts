import { type PodName, StoreError } from "../store.ts"
import { WatchPause } from "./pause.ts"
import type { Surroundings } from "./surroundings.ts"

/** Follows the pods that are bound to this node until the signal is aborted, where the store knows pods. */
export async function followPods(
  surroundings: Surroundings,
  signal: AbortSignal,
  changed: (pods: readonly PodName[]) => void,
): Promise<void> {
  const { store, node } = surroundings
  if (!store.boundPods) return
  for (const pause = new WatchPause(surroundings); !signal.aborted; await pause.wait(signal)) {
    try {
      for await (const pods of store.boundPods(node.owner.name, signal)) changed(pods)
    } catch (error) {
      if (!(error instanceof StoreError)) throw error
    }
  }
}
