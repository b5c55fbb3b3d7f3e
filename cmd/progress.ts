import { every } from "../pkg/loop/mod.ts"
import type { Terminal } from "../tools/environment.ts"

/** CSI K, ECMA-48 8.3.41: what is on the line goes. */
const CLEAR = "\r\x1b[K"

/**
 * Runs something that may take long, and says on stderr that it is at work, for how long, and how it is stopped: from the first
 * second on, on one line that goes when it ends, or when text is written to the terminal that `run` gets. Only for people: nothing
 * where no terminal shows stderr. What does not wait, but computes, has no progress.
 */
export async function withProgress<T, W extends Pick<Terminal, "watched" | "stdout" | "stderr">>(
  what: string,
  terminal: W,
  run: (terminal: W) => Promise<T>,
  everyMs = 1000,
): Promise<T> {
  if (!terminal.watched) return run(terminal)
  let ticks = 0
  let isShown = false
  const clear = () => {
    if (isShown) terminal.stderr(CLEAR)
    isShown = false
  }
  const clearing = (write: Terminal["stdout"]) => (text: string | Uint8Array) => {
    clear()
    write(text)
  }
  using _ = every(everyMs, () => {
    ticks++
    isShown = true
    terminal.stderr(`${CLEAR}${what}: at work for ${ticks} s, Ctrl-C stops it`)
  })
  try {
    return await run({ ...terminal, stdout: clearing(terminal.stdout), stderr: clearing(terminal.stderr) })
  } finally {
    clear()
  }
}
