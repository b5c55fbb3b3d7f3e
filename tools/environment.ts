import { fstatSync, writeSync } from "node:fs"
import { resolve } from "node:path"
import type { Attachment } from "../pkg/libcni/mod.ts"
import { CniError, Code, isJsonObject, type JsonObject, parseJson } from "../pkg/types/mod.ts"

type Env = Readonly<Record<string, string | undefined>>

/** The default directories, without a flag or a variable. */
export const defaults = { confDir: "/etc/cni/net.d", binDir: "/opt/cni/bin", cacheDir: "/var/lib/cni", ifName: "eth0" }

/**
 * The container ID that upstream's cnitool makes from a namespace: "cnitool-" and the first ten bytes of the SHA-512 of
 * the absolute path, in hex. Both our tools use it, so that one can delete what the other added.
 */
export function containerIdOf(netns: string): string {
  const digest = new Bun.CryptoHasher("sha512").update(resolve(netns)).digest("hex")
  return `cnitool-${digest.slice(0, 20)}`
}

/**
 * An interface of a namespace, as the environment describes it where nothing is given: `CNI_IFNAME`, `CNI_ARGS`, `CAP_ARGS`.
 * Throws code 4.
 */
export function attachmentOf(
  env: Env,
  netns: string,
  given: { containerId?: string | undefined; ifName?: string | undefined },
): Attachment {
  return {
    containerId: given.containerId ?? containerIdOf(netns),
    ifName: given.ifName ?? (env.CNI_IFNAME || defaults.ifName),
    netns: resolve(netns),
    args: readArgs(env),
    capabilityArgs: readCapabilityArgs(env),
  }
}

/** Reads `CNI_ARGS`, "K=V;K=V". Both sides must be there, and no further "=". Throws code 4. */
function readArgs({ CNI_ARGS: text = "" }: Env): Attachment["args"] {
  if (text === "") return []
  return text.split(";").map((pair) => {
    const [key, value, ...more] = pair.split("=")
    if (key && value && more.length === 0) return [key, value] as const
    throw new CniError(Code.InvalidEnvironment, `invalid CNI_ARGS pair ${JSON.stringify(pair)}`)
  })
}

/** Reads `CAP_ARGS`, a JSON object with a value for each capability. Throws code 4. */
function readCapabilityArgs({ CAP_ARGS: text = "" }: Env): JsonObject {
  if (text === "") return {}
  try {
    const value = parseJson(text, "CAP_ARGS")
    if (isJsonObject(value)) return value
  } catch (cause) {
    throw new CniError(Code.InvalidEnvironment, "Cannot use CAP_ARGS", { cause })
  }
  throw new CniError(
    Code.InvalidEnvironment,
    'Cannot use CAP_ARGS: expected a JSON object like {"mac":"0a:00:00:00:00:01"}',
  )
}

/** A list of directories, "A:B", made absolute; empty elements mean nothing and are left out. */
export function readPath(text: string): string[] {
  return text
    .split(":")
    .filter((directory) => directory !== "")
    .map((directory) => resolve(directory))
}

/** The terminal and the variables of a command line tool: tests pass their own. */
export interface Terminal {
  readonly env: Readonly<Record<string, string | undefined>>
  /** Writes text as it is, without a newline of its own. */
  readonly stdout: (text: string) => void
  readonly stderr: (text: string | Uint8Array) => void
  /** All of stdin, to its end. */
  readonly stdin: () => Promise<string>
  /** Whether stdout is a terminal. */
  readonly interactive: boolean
  /** Whether stderr is a terminal. */
  readonly watched?: boolean
  /** The width of stdout in characters, at this moment; undefined where there is no limit. */
  readonly columns?: number | undefined
  /** Whether stdout shows colours and its user wants them: <https://no-color.org>. */
  readonly colour?: boolean
  /** Ctrl-C, or the service manager's "stop". */
  readonly signal: AbortSignal
}

/** The terminal of this process. */
export function processTerminal(): Terminal {
  const interrupted = new AbortController()
  for (const signal of ["SIGINT", "SIGTERM"] as const)
    process.once(signal, () => interrupted.abort(interruption(signal)))
  const { env } = process
  const interactive = isTerminal(STDOUT)
  return {
    env,
    stdout: (text) => writeAll(STDOUT, text),
    stderr: (text) => writeAll(STDERR, text),
    stdin: () => Bun.stdin.text(),
    interactive,
    watched: isTerminal(STDERR),
    get columns() {
      const wanted = Number(env.COLUMNS)
      return wanted > 0 ? wanted : interactive ? process.stdout.columns : undefined
    },
    colour: interactive && !env.NO_COLOR && env.TERM !== "dumb",
    signal: interrupted.signal,
  }
}

const STDOUT = 1
const STDERR = 2

/** Whether a stream is a terminal. Bun's streams take 10 ms to load, so only a character device is worth asking them. */
function isTerminal(fd: typeof STDOUT | typeof STDERR): boolean {
  if (!fstatSync(fd).isCharacterDevice()) return false
  return (fd === STDOUT ? process.stdout : process.stderr).isTTY === true
}

/** The exit code of a program whose reader is gone, as shells show a death by SIGPIPE: `ls | head` has it, too. */
const READER_GONE = 141

/** Writes all of it. Ends the process, without a word, when the pipe has no reader any more. */
function writeAll(fd: number, text: string | Uint8Array): void {
  let rest = typeof text === "string" ? Buffer.from(text) : text
  while (rest.length > 0) {
    try {
      rest = rest.subarray(writeSync(fd, rest))
    } catch (error) {
      const code = error instanceof Error && "code" in error ? error.code : undefined
      if (code === "EPIPE") process.exit(READER_GONE)
      if (code !== "EAGAIN") throw error
      Bun.sleepSync(1) // the other end has made the pipe non-blocking, and it is full
    }
  }
}

function interruption(signal: string): Error {
  return new Error(`Interrupted by ${signal}`)
}
