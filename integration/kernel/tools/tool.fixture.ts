import { cni } from "../../../cmd/cni/main.ts"
import { processTerminal } from "../../../tools/environment.ts"
import { recordingTerminal } from "../../../tools/testing.ts"
import { type HostNamespace, programEnv } from "../../lab/mod.ts"

/** A command line for `cni`, and who reads what it prints. */
interface Asked {
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string>>
  readonly interactive: boolean
}

/** The outcome. */
export interface Said {
  readonly exitCode: number
  readonly stdout: string
  readonly stderr: string
}

/** The tool `cni` on a host, from its sources: one process, which is asked many times. */
export class ToolOnHost implements AsyncDisposable {
  readonly #process: Bun.Subprocess<"pipe", "pipe", "inherit">
  readonly #answers: AsyncIterator<string>
  readonly #env: Readonly<Record<string, string>>

  /** `env` is what each command line has besides the usual. */
  constructor(host: HostNamespace, env: Readonly<Record<string, string>>) {
    const command = host.commandLine([process.execPath, import.meta.path])
    this.#process = Bun.spawn(command, { stdin: "pipe", stdout: "pipe", stderr: "inherit", env: programEnv })
    this.#answers = linesOf(this.#process.stdout)
    this.#env = { ...programEnv, ...env }
  }

  async run(args: readonly string[], more: Partial<Omit<Asked, "args">> = {}): Promise<Said> {
    const asked: Asked = { args, interactive: more.interactive ?? false, env: { ...this.#env, ...more.env } }
    this.#process.stdin.write(`${JSON.stringify(asked)}\n`)
    this.#process.stdin.flush()
    const { value = "null" } = await this.#answers.next()
    return JSON.parse(value)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#process.stdin.end()
    await this.#process.exited
  }
}

async function* linesOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder()
  let rest = ""
  for await (const chunk of stream) {
    const lines = `${rest}${decoder.decode(chunk, { stream: true })}`.split("\n")
    rest = lines.pop() ?? ""
    yield* lines
  }
}

if (import.meta.main && process.argv.length > 2) {
  // The tool runs itself for a dry run.
  process.exitCode = await cni(process.argv.slice(2), processTerminal())
} else if (import.meta.main) {
  for await (const line of linesOf(Bun.stdin.stream())) {
    const { args, env, interactive }: Asked = JSON.parse(line)
    const terminal = recordingTerminal(env, interactive)
    const exitCode = await cni(args, terminal)
    const said: Said = { exitCode, stdout: terminal.out, stderr: terminal.err }
    process.stdout.write(`${JSON.stringify(said)}\n`)
  }
}
