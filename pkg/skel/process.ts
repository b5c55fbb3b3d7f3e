import { encodeUtf8, exhaustion } from "../engine/mod.ts"
import type { Builtin, Reply } from "../invoke/mod.ts"
import {
  exit,
  type Fd,
  isErrno,
  Poll,
  poll,
  programArguments,
  read,
  readEnvironment,
  unlessErrno,
  write,
} from "../libc/mod.ts"
import type { NamespaceFile } from "../netns/mod.ts"
import { messageOf } from "../types/mod.ts"
import { Flight } from "./flight.ts"
import type { Plugin } from "./plugin.ts"
import { serve } from "./serve.ts"

/**
 * Runs a plugin as this process: reads `CNI_*` and stdin, writes one reply to stdout, and exits. Plugins in `delegates`
 * run in this process if `CNI_PATH` has them as files of the same build. Never waits for asynchronous work.
 *
 * @example if (import.meta.main) runPlugin(ptp)
 */
export function runPlugin<C>(plugin: Plugin<C>, delegates: readonly Plugin<unknown>[] = []): never {
  const env = readEnvironment()
  const flight = Flight.begin(plugin.name, env)
  const builtinsOn = (namespace: NamespaceFile) => builtinsOf(delegates, namespace)
  const io = { env, args: programArguments, stdin: readStdin, log: logLine, write: writeStdout, builtinsOn }
  const reply = flight ? serve(flight.watch(plugin), flight.watchIo(io)) : serve(plugin, io)
  const exitCode = writeReply(reply)
  flight?.end(reply)
  return exit(exitCode) // at once, because leftovers of a verb must not keep the process alive
}

/**
 * Writes the reply to stdout. Returns the reply's exit code, or 1 if the reply could not be written. Throws if the
 * engine lacks memory or stack for this; the host process then answers without the engine.
 */
export function writeReply(reply: Reply): number {
  try {
    if (reply.stdout !== "") writeStdout(reply.stdout)
    return reply.exitCode
  } catch (error) {
    if (exhaustion(error)) throw error
    logLine(`Cannot write to stdout: ${messageOf(error)}; it was: ${reply.stdout}`)
    return 1
  }
}

function builtinsOf(delegates: readonly Plugin<unknown>[], namespace: NamespaceFile): Record<string, Builtin> {
  const builtins: Record<string, Builtin> = {}
  const builtinsOn = () => builtins
  for (const delegate of delegates) {
    builtins[delegate.name] = ({ env, stdin }) =>
      serve(delegate, { env, stdin: () => stdin, builtinsOn, log: logLine, namespace })
  }
  return builtins
}

const stdin = 0 as Fd
const stdout = 1 as Fd
const stderr = 2 as Fd

/** The limit in bytes for a configuration with its prevResult. */
export const inputLimit = 16 << 20

/** The timeout for silence on stdin, and for a full stdout. */
const patienceMs = 60_000

/**
 * Reads stdin until its end. Throws if it cannot be read, is longer than 16 MiB, or is silent for a minute. A runtime
 * that forgets to close it must not leave a plugin process behind for each call.
 */
export function readStdin(silenceMs = patienceMs): Uint8Array {
  let buffer = new Uint8Array(8192)
  for (let length = 0; ; ) {
    if (length > inputLimit) throw new Error(`more than ${inputLimit} bytes: this is not a network configuration`)
    if (length === buffer.length) buffer = grown(buffer)
    if (!poll(stdin, Poll.In, silenceMs)) {
      throw new Error(
        `stdin had no data and no end of file for ${silenceMs / 1000} s: the caller must close it after the configuration`,
      )
    }
    const count = unlessErrno(() => read(stdin, buffer.subarray(length)), "EAGAIN") // a spurious wakeup
    if (count === 0) return buffer.subarray(0, length)
    length += count ?? 0
  }
}

/** Writes all of a text to stdout. Throws `SyscallError`, `EPIPE` or `ENOSPC`, or an error if a pipe stays full. */
export function writeStdout(text: string, fullMs = patienceMs): void {
  writeText(stdout, text, fullMs)
}

/** Writes one line to stderr. Ignores errors. */
export function logLine(line: string): void {
  try {
    writeText(stderr, `${line}\n`, patienceMs)
  } catch {}
}

function writeText(fd: Fd, text: string, fullMs: number): void {
  const bytes = encodeUtf8(text)
  for (let done = 0; done < bytes.length; ) {
    try {
      done += write(fd, bytes.subarray(done))
    } catch (error) {
      if (!isErrno(error, "EAGAIN")) throw error // the caller or an earlier process made the pipe non-blocking
      if (!poll(fd, Poll.Out, fullMs)) throw new Error(`the reader of stdout has not read for ${fullMs / 1000} s`)
    }
  }
}

function grown(buffer: Uint8Array): Uint8Array<ArrayBuffer> {
  const larger = new Uint8Array(Math.min(buffer.length * 4, inputLimit + 1))
  larger.set(buffer)
  return larger
}
