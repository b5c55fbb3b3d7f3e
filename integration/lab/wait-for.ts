/**
 * A time limit for this machine: `ms` as many times as `CNI_TEST_PATIENCE` says. An emulated machine is 20 times slower
 * than a real one; without the variable a limit stays what it is.
 */
export function patient(ms: number): number {
  return ms * (Number(process.env.CNI_TEST_PATIENCE) || 1)
}

/**
 * How long a test waits for what is to come, before patience: it only ends a test that would hang, since a busy machine
 * takes its time.
 */
export const waitLimitMs = 60_000

/** How often a condition is looked at. */
const intervalMs = 10

/**
 * Waits until `condition` gives something other than `false`, `undefined` or `null`, and returns it. A condition that
 * throws does not hold yet. Throws after `deadlineMs` with `what` in the message and the last error as its cause.
 * @example await waitFor(() => ping(pod, "10.1.0.1"), "the gateway answers")
 */
export async function waitFor<T>(
  condition: () => T | Promise<T>,
  what: string,
  deadlineMs = waitLimitMs,
): Promise<Exclude<T, false | undefined | null>> {
  const limitMs = patient(deadlineMs)
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
 * The value of `work`, which a mistake could keep from ever ending: the answer of a peer, the end of a loop. Throws
 * after `deadlineMs` with `what` in the message.
 * @example await within(reading, "the watch to end")
 */
export async function within<T>(work: Promise<T>, what: string, deadlineMs = waitLimitMs): Promise<T> {
  const limitMs = patient(deadlineMs)
  const { promise, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => reject(new Error(`Waited ${limitMs} ms in vain for: ${what}`)), limitMs)
  try {
    return await Promise.race([work, promise])
  } finally {
    clearTimeout(timer)
  }
}
