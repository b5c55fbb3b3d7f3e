import { sleep } from "../loop/mod.ts"
import { CniError, Code, isCniError } from "../types/mod.ts"

/** Throws code 11 if a signal has aborted, caused by its reason, or the reason itself if that is a `CniError`. */
export function throwIfStopped(signal: AbortSignal | undefined): void {
  if (signal?.aborted) throw stopped(signal)
}

/** Waits for a time. Throws like `throwIfStopped` as soon as the signal aborts. */
export async function pause(ms: number, signal?: AbortSignal): Promise<void> {
  await sleep(ms, signal)
  throwIfStopped(signal)
}

export function stopped({ reason }: AbortSignal): CniError {
  if (isCniError(reason)) return reason
  return new CniError(Code.TryAgainLater, "Cannot continue: the operation was interrupted", { cause: reason })
}
