import { sleep } from "../loop/mod.ts"
import { CniError, Code, isCniError } from "../types/mod.ts"

/** Throws code 11 when a signal says stop, with the signal's reason as its cause; a reason that is a `CniError` as it is. */
export function throwIfStopped(signal: AbortSignal | undefined): void {
  if (signal?.aborted) throw stopped(signal)
}

/** Waits. Throws as `throwIfStopped` as soon as the signal says stop. */
export async function pause(ms: number, signal?: AbortSignal): Promise<void> {
  await sleep(ms, signal)
  throwIfStopped(signal)
}

/** The error of an operation that a signal has stopped. */
export function stopped({ reason }: AbortSignal): CniError {
  if (isCniError(reason)) return reason
  return new CniError(Code.TryAgainLater, "Cannot go on: the operation was interrupted", { cause: reason })
}
