// Many calls of plugins in one process, for fuzzing: built as the plugins are, with sanitizers. Each line of stdin is a call,
// its configuration a character for each byte. Writes a line for each before it begins, and one at the end.
import { ipamPlugins } from "../../cmd/plugins.ts"
import { decodeUtf8 } from "../../pkg/engine/mod.ts"
import { exit, type Fd, read } from "../../pkg/libc/mod.ts"
import { logLine, prepare, serve } from "../../pkg/skel/mod.ts"
import { definitionOf } from "../every-plugin/definitions.ts"

interface FuzzedCall {
  readonly plugin: string
  readonly env: Record<string, string>
  readonly stdin: string
}

/** Throws when an answer is none of the protocol's. */
function call({ plugin: name, env, stdin }: FuzzedCall): void {
  const bytes = Uint8Array.from(stdin, (character) => character.charCodeAt(0))
  const { stdout, exitCode } = prepare(definitionOf(name), { env, stdin: () => bytes, log: () => {} }).run(
    (namespace) =>
      Object.fromEntries(
        ipamPlugins.map((ipam) => [
          ipam.name,
          (inner) => serve(ipam, { env: inner.env, stdin: () => inner.stdin, log: () => {}, namespace }),
        ]),
      ),
  )
  if (exitCode === 0 && (stdout === "" || typeof JSON.parse(stdout) === "object")) return
  const { code, msg } = JSON.parse(stdout) as { code?: unknown; msg?: unknown }
  if (exitCode !== 1 || typeof code !== "number" || typeof msg !== "string" || msg === "") throw new Error(stdout)
}

function readAll(): Uint8Array {
  const buffer = new Uint8Array(16 << 20)
  let length = 0
  for (let count = -1; count !== 0; length += count) count = read(0 as Fd, buffer.subarray(length))
  return buffer.subarray(0, length)
}

export function run(): never {
  const calls = decodeUtf8(readAll()).trimEnd().split("\n")
  for (const line of calls) {
    logLine(line)
    try {
      call(JSON.parse(line))
    } catch (error) {
      logLine(`No answer of the protocol's: ${error}`)
      return exit(3)
    }
  }
  logLine("All are answered")
  return exit(0)
}
