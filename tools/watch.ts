import { decodeUtf8 } from "../pkg/engine/mod.ts"
import { sleep } from "../pkg/loop/mod.ts"
import type { Terminal } from "./environment.ts"

/** Moves the cursor to the top left corner, and clears the screen: ECMA-48 8.3.57 and 8.3.39. */
const CLEAR = "\x1b[H\x1b[J"

/** The exit code of an invalid command line, after which a repetition would not help. */
const NOT_UNDERSTOOD = 2

/**
 * Runs a command repeatedly, and prints its output and errors when they change. On a terminal, clears the screen first.
 * Continues until the terminal's signal aborts, and returns exit code 0, or 2 for an invalid command line.
 */
export async function watch(
  run: (terminal: Terminal) => Promise<number>,
  terminal: Terminal,
  { everyMs, title }: { readonly everyMs: number; readonly title: string | undefined },
): Promise<number> {
  let shown: string | undefined
  while (!terminal.signal.aborted) {
    let [out, err] = ["", ""]
    const code = await run({
      ...terminal,
      stdout: (text) => {
        out += textOf(text)
      },
      stderr: (text) => {
        err += textOf(text)
      },
    })
    if (terminal.signal.aborted) break
    if (shown !== out + err) {
      shown = out + err
      const head = title === undefined ? "" : `${CLEAR}${new Date().toISOString()}  ${title}\n\n`
      terminal.stdout(`${head}${out}`)
      terminal.stderr(err)
    }
    if (code === NOT_UNDERSTOOD) return code
    await sleep(everyMs, terminal.signal)
  }
  return 0
}

function textOf(written: string | Uint8Array): string {
  return typeof written === "string" ? written : decodeUtf8(written)
}
