// Runs many cases in one process. It is built like the plugins, with sanitizers or without. `fuzz record` prints the
// kernel's answers to all requests of plugins, as cases. Otherwise each line of stdin is a case: its number goes to
// stderr, all results to stdout.
// biome-ignore assist/source/organizeImports: this module must replace the engine's functions before others copy them
import { watch } from "./door.fixture.ts"
import { pluginsInProcess, requirePlugin } from "../../../suite/plugins.ts"
import { decodeUtf8, encodeUtf8 } from "../../../pkg/engine/mod.ts"
import type { Builtin } from "../../../pkg/invoke/mod.ts"
import { exit, type Fd, programArguments, read, writeAll } from "../../../pkg/libc/mod.ts"
import type { NamespaceFile } from "../../../pkg/netns/mod.ts"
import { logLine, type Plugin, serve } from "../../../pkg/skel/mod.ts"
import type { CallCase, Case, Outcome, ReadCase } from "./case.ts"
import { questions, record } from "./netlink.fixture.ts"
import { judgeReader } from "./readers.fixture.ts"
import { bytesOf, textOf, vary } from "./vary.ts"

/** The result of a plugin call. */
interface Answer {
  readonly stdout: string
  readonly exitCode: number
  /** Whether the plugin refused the call before it ran the verb. */
  readonly early: boolean
}

function serveCall(name: string, env: CallCase["env"], stdin: Uint8Array): Answer {
  let early = true
  const { plugin } = requirePlugin(name)
  const begin =
    <C extends unknown[], R>(verb: (...values: C) => R) =>
    (...values: C): R => {
      early = false
      return verb(...values)
    }
  const watched: Plugin<unknown> = {
    ...plugin,
    add: begin(plugin.add),
    check: begin(plugin.check),
    del: begin(plugin.del),
    gc: begin(plugin.gc),
    status: begin(plugin.status),
  }
  const log = () => {}
  const builtinsOn = (namespace: NamespaceFile) => {
    const builtins: Record<string, Builtin> = {}
    for (const delegate of pluginsInProcess(requirePlugin("flannel")))
      builtins[delegate.name] = (inner) =>
        serve(delegate, { env: inner.env, stdin: () => inner.stdin, log, namespace, builtinsOn: () => builtins })
    return builtins
  }
  const { stdout, exitCode } = serve(watched, { env, stdin: () => stdin, log, builtinsOn })
  return { stdout, exitCode, early }
}

/** The error codes of the specification, and 0, 8 and 999 of the reference plugins. */
const codes = [0, 1, 2, 3, 4, 5, 6, 7, 8, 11, 50, 51, 999]

/** Returns the protocol error in the output of a plugin call, or undefined if none exists. */
function judgeAnswer({ stdout, exitCode }: Answer, { env, says }: CallCase, isGarbled: boolean): string | undefined {
  if (exitCode === 0) {
    const isEmpty = stdout === ""
    if (isEmpty && (env.CNI_COMMAND === "ADD" || env.CNI_COMMAND === "VERSION")) return "success without an answer"
    return isEmpty || typeof JSON.parse(stdout) === "object" ? undefined : `stdout: ${stdout}`
  }
  const error = JSON.parse(stdout) as { cniVersion?: unknown; code?: unknown; msg?: unknown; details?: unknown }
  const { code, msg, details = "" } = error
  if (exitCode !== 1 || typeof code !== "number" || typeof msg !== "string" || typeof details !== "string")
    return stdout
  if (code < 100 ? !codes.includes(code) : !Number.isSafeInteger(code)) return `code ${code}: ${stdout}`
  if (msg.trim() === "" || typeof error.cniVersion !== "string") return stdout
  if (/(^|[ ;])at [\w<>.# ]*(pkg|plugins|ipam|meta)\/[\w/-]+\.ts:\d/.test(details))
    return `an uncaught exception: ${stdout}`
  const sentence = `${msg}; ${details}`.toLowerCase()
  if (says && !isGarbled && !says.some((word) => sentence.includes(word.toLowerCase())))
    return `names none of ${says}: ${stdout}`
  return undefined
}

function judgeCall(one: CallCase): { why?: string | undefined; input?: string } {
  let stdin = bytesOf(one.stdin)
  if (one.added) {
    const added = serveCall(one.plugin, { ...one.env, CNI_COMMAND: "ADD" }, stdin)
    if (added.exitCode !== 0) return { input: "ADD before it was refused" }
    const config = JSON.parse(decodeUtf8(stdin))
    stdin = encodeUtf8(JSON.stringify({ ...config, prevResult: JSON.parse(added.stdout) }))
  }
  const { value, changes, touched } = watch(one.garbled, () => serveCall(one.plugin, one.env, stdin))
  let why = judgeAnswer(value, one, one.garbled !== undefined)
  if (!why && value.exitCode !== 0 && value.early && changes.length > 0)
    why = `changed before the first check: ${changes}`
  const isThere = one.added || (one.env.CNI_COMMAND === "ADD" && (value.exitCode === 0 || one.garbled))
  if (isThere) {
    const { stdout, exitCode } = serveCall(one.plugin, { ...one.env, CNI_COMMAND: "DEL" }, stdin)
    if (exitCode !== 0) why ??= `the DEL after it: ${stdout}`
  }
  return {
    why,
    ...(one.garbled && { input: touched === undefined ? "nothing that was read" : `read: ${one.garbled.source}` }),
  }
}

/** The results of the cases so far. */
class Account implements Outcome {
  readonly tried: Record<string, number> = {}
  readonly broken: { case: Case; why: string }[] = []

  /** Runs one case. Prints its number first, because the case may end this process. */
  judge(number: string, one: Case): void {
    logLine(number)
    let [input, why]: [string, string | undefined] = [one.kind === "call" ? one.input : one.reader, undefined]
    try {
      if (one.kind === "call") ({ input = input, why } = judgeCall(one))
      else why = judgeReader(one.reader, one.bytes.map(bytesOf), one.valid)
    } catch (error) {
      why = error instanceof Error ? `${error}\n${error.stack}` : String(error)
    }
    this.#note(input, one, why)
  }

  /** Runs random variants of a valid case. */
  vary(number: string, { kind, reader, bytes }: ReadCase, { seed, times }: NonNullable<ReadCase["varied"]>): void {
    const parts = bytes.map(bytesOf)
    for (let at = seed; at < seed + times; at++) {
      logLine(`${number} ${at}`)
      const varied = vary(at, reader, parts)
      const why = judgeReader(reader, varied)
      this.#note(reader, why === undefined ? undefined : { kind, reader, bytes: varied.map(textOf) }, why)
    }
  }

  #note(input: string, one: Case | undefined, why: string | undefined): void {
    this.tried[input] = (this.tried[input] ?? 0) + 1
    if (one && why !== undefined && this.broken.length < 200) this.broken.push({ case: one, why })
  }
}

function readAll(): Uint8Array {
  let buffer = new Uint8Array(4 << 20)
  let length = 0
  for (let count = -1; count !== 0; length += count) {
    if (length === buffer.length) {
      const larger = new Uint8Array(2 * length)
      larger.set(buffer)
      buffer = larger
    }
    count = read(0 as Fd, buffer.subarray(length))
  }
  return buffer.subarray(0, length)
}

export function run(): never {
  const print = (value: unknown) => writeAll(1 as Fd, encodeUtf8(`${JSON.stringify(value)}\n`))
  if (programArguments().includes("record")) {
    for (const name of Object.keys(questions))
      print({ kind: "read", reader: `netlink: ${name}`, bytes: record(name).map(textOf) } satisfies Case)
    return exit(0)
  }
  const account = new Account()
  for (const [at, line] of decodeUtf8(readAll()).trimEnd().split("\n").entries()) {
    const one = JSON.parse(line) as Case
    if (one.kind === "read" && one.varied) account.vary(String(at), one, one.varied)
    else account.judge(String(at), one)
  }
  print({ tried: account.tried, broken: account.broken } satisfies Outcome)
  return exit(0)
}
