import { every } from "../pkg/loop/mod.ts"
import type { Terminal } from "../tools/environment.ts"

/** CSI K, ECMA-48 8.3.41: what is on the line goes. */
const CLEAR = "\r\x1b[K"

/**
 * Runs something that may take long, and says on stderr that it is at work, for how long, and how it is stopped: from the first
 * second on, on one line that goes when it ends. Only for people: nothing where no terminal shows stderr. What does not wait, but
 * computes, has no progress.
 */
export async function withProgress<T>(
  what: string,
  { watched, stderr }: Pick<Terminal, "watched" | "stderr">,
  run: () => Promise<T>,
  everyMs = 1000,
): Promise<T> {
  if (!watched) return run()
  let ticks = 0
  using _ = every(everyMs, () => {
    ticks++
    stderr(`${CLEAR}${what}: at work for ${ticks} s, Ctrl-C stops it`)
  })
  try {
    return await run()
  } finally {
    if (ticks > 0) stderr(CLEAR)
  }
}
