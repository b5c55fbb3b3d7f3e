import { writeSync } from "node:fs"
import { setTimeout as pause } from "node:timers/promises"
import { type Plugin, serve } from "../skel/mod.ts"

/** The limit in bytes for a configuration with its prevResult. */
const inputLimit = 16 << 20
/** The timeout for silence on stdin, and for a full stdout. */
const patienceMs = 60_000
const fullMs = 5

/**
 * Runs a plugin as this process: reads `CNI_*` and stdin, writes the answer to stdout, and exits. Reads all of stdin
 * before it calls the plugin, because the verbs are synchronous.
 *
 * @example await runPlugin(plugin)
 */
export async function runPlugin<C>(plugin: Plugin<C>): Promise<never> {
  const { env } = process
  const readsInput = !["", "VERSION"].includes(env.CNI_COMMAND ?? "") // some callers never write or close stdin
  const stdin = readsInput ? await readStdin().catch((error: unknown) => error) : new Uint8Array()
  const { stdout, exitCode } = serve(plugin, {
    env,
    stdin() {
      if (stdin instanceof Uint8Array) return stdin
      throw stdin
    },
    log: (line) => tryWrite(2, `${line}\n`),
    write: (text) => writeAll(1, text),
  })
  const written = stdout === "" || tryWrite(1, stdout)
  process.exit(written ? exitCode : 1)
}

/** Reads stdin until its end. Throws if it is longer than 16 MiB, or silent for a minute. */
async function readStdin(): Promise<Uint8Array> {
  const silence = new AbortController()
  const chunks: Uint8Array[] = []
  let length = 0
  const read = async () => {
    for await (const chunk of process.stdin as AsyncIterable<Uint8Array>) {
      length += chunk.length
      if (length > inputLimit) throw new Error(`more than ${inputLimit} bytes: this is not a network configuration`)
      chunks.push(chunk)
    }
  }
  const watch = async () => {
    for (let seen = -1; seen !== length; ) {
      seen = length
      await pause(patienceMs, undefined, { signal: silence.signal, ref: false })
    }
    throw new Error(
      `stdin had no data and no end of file for ${patienceMs / 1000} s: the caller must close it after the configuration`,
    )
  }
  try {
    await Promise.race([read(), watch()])
  } finally {
    silence.abort()
  }
  return Buffer.concat(chunks)
}

/** Writes all of a text. Throws if the pipe has no reader, the disk is full, or a pipe stays full for a minute. */
function writeAll(fd: number, text: string): void {
  const bytes = Buffer.from(text)
  let fullSince: number | undefined
  for (let done = 0; done < bytes.length; ) {
    try {
      done += writeSync(fd, bytes, done)
      fullSince = undefined
    } catch (error) {
      if (!(error instanceof Error && "code" in error && error.code === "EAGAIN")) throw error
      fullSince ??= performance.now()
      if (performance.now() - fullSince > patienceMs) throw new Error(`the pipe was full for ${patienceMs / 1000} s`)
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, fullMs)
    }
  }
}

function tryWrite(fd: number, text: string): boolean {
  try {
    writeAll(fd, text)
    return true
  } catch {
    return false
  }
}
