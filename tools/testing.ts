import { decodeUtf8 } from "../pkg/engine/mod.ts"
import type { Terminal } from "./environment.ts"

export interface RecordingTerminal extends Terminal {
  readonly out: string
  readonly err: string
}

/** Returns a terminal for tests, with only this environment. It is not interactive by default. */
export function recordingTerminal(
  env: Terminal["env"],
  interactive = false,
  more: Partial<Pick<Terminal, "columns" | "colour" | "stdin">> = {},
): RecordingTerminal {
  const written = { out: "", err: "" }
  const text = (chunk: string | Uint8Array) => (typeof chunk === "string" ? chunk : decodeUtf8(chunk))
  return {
    env,
    interactive,
    stdin: async () => "",
    ...more,
    signal: new AbortController().signal,
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
