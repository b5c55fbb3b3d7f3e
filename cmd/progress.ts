import { every } from "../pkg/loop/mod.ts"
import type { Terminal } from "../tools/environment.ts"

/** Returns to the start of the line and erases it: CSI K, ECMA-48 8.3.41. */
const CLEAR = "\r\x1b[K"

/**
 * Calls `run`, which may take long. After one second, prints on stderr what is running, for how long, and how to stop
 * it. Erases that line when `run` ends or writes to the terminal that it receives. Prints nothing if stderr is not a
 * terminal, or while `run` computes synchronously.
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
    terminal.stderr(`${CLEAR}${what}: running for ${ticks} s, Ctrl-C stops it`)
  })
  try {
    return await run({ ...terminal, stdout: clearing(terminal.stdout), stderr: clearing(terminal.stderr) })
  } finally {
    clear()
  }
}
