/** What a command line tool sees of the world: tests pass their own. */
export interface Terminal {
  readonly env: Readonly<Record<string, string | undefined>>
  /** Writes text as it is, without a newline of its own. */
  readonly stdout: (text: string) => void
  readonly stderr: (text: string | Uint8Array) => void
  /** Whether a human reads stdout. */
  readonly interactive: boolean
  /** Ctrl-C, or the service manager's "stop". */
  readonly signal: AbortSignal
}

/** The terminal of this process. For tools only: the streams cost more than a whole plugin run. */
export function processTerminal(): Terminal {
  const interrupted = new AbortController()
  for (const signal of ["SIGINT", "SIGTERM"] as const)
    process.once(signal, () => interrupted.abort(interruption(signal)))
  return {
    env: process.env,
    stdout: (text) => void process.stdout.write(text),
    stderr: (text) => void process.stderr.write(text),
    interactive: process.stdout.isTTY === true,
    signal: interrupted.signal,
  }
}

function interruption(signal: string): Error {
  return new Error(`Interrupted by ${signal}`)
}
