import type { Terminal } from "./environment.ts"

/** A terminal that keeps what is written to it. */
export interface RecordingTerminal extends Terminal {
  readonly out: string
  readonly err: string
}

/** A terminal for tests: this environment and nothing else, not interactive unless told so. */
export function recordingTerminal(
  env: Terminal["env"],
  interactive = false,
  screen: Pick<Terminal, "columns" | "colour"> = {},
): RecordingTerminal {
export function recordingTerminal(env: Terminal["env"], interactive = false, stdin = ""): RecordingTerminal {
  const written = { out: "", err: "" }
  const text = (chunk: string | Uint8Array) => (typeof chunk === "string" ? chunk : new TextDecoder().decode(chunk))
  return {
    env,
    interactive,
    ...screen,
    signal: new AbortController().signal,
    stdin: async () => stdin,
    stdout: (chunk) => {
      written.out += text(chunk)
    },
    stderr: (chunk) => {
      written.err += text(chunk)
    },
    get out() {
      return written.out
    },
    get err() {
      return written.err
    },
  }
}
