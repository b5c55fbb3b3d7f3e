import { decodeUtf8, encodeUtf8, sha512 } from "../pkg/engine/mod.ts"
import {
  type Fd,
  isErrno,
  Poll,
  poll,
  read,
  readEnvironment,
  resolve,
  Signal,
  terminalColumns,
  write,
} from "../pkg/libc/mod.ts"
import type { Attachment } from "../pkg/libcni/mod.ts"
import { leave, onSignal, ready, type Stop, stopOnceAsked } from "../pkg/loop/mod.ts"
import { concat } from "../pkg/netlink/mod.ts"
import { CniError, Code, isJsonObject, type JsonObject, parseJson } from "../pkg/types/mod.ts"
import { type ScreenSize, visible } from "./screen.ts"

type Env = Readonly<Record<string, string | undefined>>

/** The directories that are used without a flag or a variable. */
export const defaults = { confDir: "/etc/cni/net.d", binDir: "/opt/cni/bin", cacheDir: "/var/lib/cni", ifName: "eth0" }

/**
 * Returns the container ID that the reference suite's cnitool derives from a namespace: "cnitool-" and the first ten
 * bytes of the SHA-512 of the absolute path, in hexadecimal. So each tool can delete attachments that the other added.
 */
export function containerIdOf(netns: string): string {
  return `cnitool-${sha512(resolve(netns)).slice(0, 20)}`
}

/** Returns an interface with the properties in `CNI_IFNAME`, `CNI_ARGS` and `CAP_ARGS`. Throws error code 4. */
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

/** Parses `CNI_ARGS`: pairs "K=V", separated by ";". Throws a `CniError` with code 4 for other texts. */
function readArgs({ CNI_ARGS: text = "" }: Env): Attachment["args"] {
  if (text === "") return []
  return text.split(";").map((pair) => {
    const [key, value, ...more] = pair.split("=")
    if (key && value && more.length === 0) return [key, value] as const
    throw new CniError(Code.InvalidEnvironment, `invalid CNI_ARGS pair ${JSON.stringify(pair)}`)
  })
}

/** Parses `CAP_ARGS`, a JSON object with a value for each capability. Throws a `CniError` with code 4. */
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

/** Splits a list of directories, "A:B", and makes each absolute. Ignores empty elements. */
export function readPath(text: string): string[] {
  return text
    .split(":")
    .filter((directory) => directory !== "")
    .map((directory) => resolve(directory))
}

/** The terminal and the variables of a command line tool. Tests pass their own. */
export interface Terminal extends ScreenSize {
  readonly env: Readonly<Record<string, string | undefined>>
  /** Writes text without adding a newline, with control characters escaped (`visible`). Writes bytes unchanged. */
  readonly stdout: (text: string | Uint8Array) => void
  readonly stderr: (text: string | Uint8Array) => void
  readonly stdin: () => Promise<string>
  /** Whether stdout is a terminal. */
  readonly interactive: boolean
  /** Whether stderr is a terminal. */
  readonly watched?: boolean
  /** Aborts on Ctrl-C, or when the service manager stops the process. */
  readonly signal: AbortSignal
}

export function givenVariables(env: Env): Record<string, string> {
  return Object.fromEntries(Object.entries(env).filter((entry): entry is [string, string] => entry[1] !== undefined))
}

/** Returns this process's terminal. Once its signal is used, Ctrl-C aborts it, and a second Ctrl-C ends the process. */
export function processTerminal(): Terminal {
  const signal = stopOnceAsked(stopAtSignals)
  const env = readEnvironment()
  const interactive = terminalColumns(STDOUT) !== undefined
  return {
    env,
    stdout: (text) => writeAll(STDOUT, text),
    stderr: (text) => writeAll(STDERR, text),
    stdin: () => readAll(STDIN, signal),
    interactive,
    watched: terminalColumns(STDERR) !== undefined,
    get columns() {
      const wanted = Number(env.COLUMNS)
      return wanted > 0 ? wanted : terminalColumns(STDOUT) || undefined
    },
    colour: interactive && !env.NO_COLOR && env.TERM !== "dumb",
    signal,
  }
}

/**
 * Makes SIGINT and SIGTERM abort the terminal's signal. Not called for commands that never use that signal, because a
 * caught SIGINT would not interrupt open(2) on a file system that does not answer.
 */
function stopAtSignals(stop: Stop): void {
  for (const [name, signal] of [
    ["SIGINT", Signal.Interrupt],
    ["SIGTERM", Signal.Terminate],
  ] as const) {
    const watched = onSignal(signal, () => {
      watched[Symbol.dispose]()
      stop.abort(new Error(`Interrupted by ${name}`))
    })
  }
}

const [STDIN, STDOUT, STDERR] = [0, 1, 2] as const as unknown as readonly [Fd, Fd, Fd]

/** Reads until the end of the input, or until a signal. Throws the signal's reason. */
async function readAll(fd: Fd, signal: AbortSignal): Promise<string> {
  const chunks: Uint8Array[] = []
  for (;;) {
    await ready(fd, Poll.In, { signal })
    signal.throwIfAborted()
    const chunk = new Uint8Array(65_536)
    const length = read(fd, chunk)
    if (length === 0) return decodeUtf8(concat(chunks))
    chunks.push(chunk.subarray(0, length))
  }
}

/** The exit code after stdout was closed: 128 + SIGPIPE, as shells report it for `ls | head`. */
const READER_GONE = 141

/** Writes the whole text. Ends the process without a message when the pipe has no reader. */
function writeAll(fd: Fd, text: string | Uint8Array): void {
  let rest = typeof text === "string" ? encodeUtf8(visible(text)) : text
  while (rest.length > 0) {
    try {
      rest = rest.subarray(write(fd, rest))
    } catch (error) {
      if (isErrno(error, "EPIPE")) leave(READER_GONE)
      if (!isErrno(error, "EAGAIN")) throw error
      poll(fd, Poll.Out, FULL_MS) // the pipe is full, and the other end made it non-blocking
    }
  }
}

/** The maximum wait for room in a full pipe before the next attempt. */
const FULL_MS = 1000
