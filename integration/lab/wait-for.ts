/** Returns a time limit, multiplied by `CNI_TEST_PATIENCE` if set, because an emulated machine is 20 times slower. */
export function scaleTimeout(ms: number): number {
  return ms * (Number(process.env.CNI_TEST_PATIENCE) || 1)
}

/** The usual time limit, before `scaleTimeout`. It is long because it only ends tests that hang. */
export const waitLimitMs = 60_000

/** The pause between two evaluations of a condition, in milliseconds. */
const intervalMs = 10

/**
 * Calls `condition` until it returns a value other than `false`, `undefined` or `null`, and returns that value. Calls
 * `condition` again if it throws. Throws after `deadlineMs` with `what` in the message and the last error as cause.
 *
 * @example await waitFor(() => ping(pod, "10.1.0.1"), "the gateway answers")
 */
export async function waitFor<T>(
  condition: () => T | Promise<T>,
  what: string,
  deadlineMs = waitLimitMs,
): Promise<Exclude<T, false | undefined | null>> {
  const limitMs = scaleTimeout(deadlineMs)
  const end = performance.now() + limitMs
  let cause: unknown
  for (;;) {
    try {
      cause = undefined
      const value = await condition()
      if (value !== false && value !== undefined && value !== null) return value as Exclude<T, false | undefined | null>
    } catch (error) {
      cause = error
    }
    if (performance.now() >= end) throw new Error(`Waited ${limitMs} ms in vain for: ${what}`, { cause })
    await Bun.sleep(intervalMs)
  }
}

/**
 * Returns the value of `work`. Throws after `deadlineMs` with `what` in the message. Use it for work that may never end
 * because of a defect, such as a server's answer.
 *
 * @example await within(reading, "the watch to end")
 */
export async function within<T>(work: Promise<T>, what: string, deadlineMs = waitLimitMs): Promise<T> {
  const limitMs = scaleTimeout(deadlineMs)
  const { promise, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => reject(new Error(`Waited ${limitMs} ms in vain for: ${what}`)), limitMs)
  try {
    return await Promise.race([work, promise])
  } finally {
    clearTimeout(timer)
  }
}
