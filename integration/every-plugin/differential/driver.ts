/**
 * Makes a list of calls in sequence inside a host: `bun driver.ts SIDE CALLS ANSWERS`. SIDE selects the executables,
 * the same plugins in this Bun process, or `bun main.ts` for each call.
 */
import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import type { Builtin } from "../../../pkg/invoke/mod.ts"
import type { NamespaceFile } from "../../../pkg/netns/mod.ts"
import { serve } from "../../../pkg/skel/mod.ts"
import { pluginsInProcess, requirePlugin } from "../../../suite/plugins.ts"

/** A plugin call. */
export interface DriverCall {
  readonly plugin: string
  readonly env: Readonly<Record<string, string>>
  /** The input in Base64. */
  readonly stdin: string
  /** The index of an earlier call whose output becomes the `prevResult` of this call. */
  readonly prevResultOf?: number
}

/** The output of a plugin call. */
export interface DriverAnswer {
  readonly exitCode: number
  readonly stdout: string
  readonly stderr: string
}

export type Side = "executable" | "served" | "main.ts"

const project = join(import.meta.dir, "../../..")
function start(command: string[], env: DriverCall["env"], stdin: Uint8Array): DriverAnswer {
  const { exitCode, stdout, stderr } = Bun.spawnSync(command, { env, stdin, stdout: "pipe", stderr: "pipe" })
  return { exitCode, stdout: stdout.toString(), stderr: stderr.toString() }
}

function serveHere(name: string, env: DriverCall["env"], stdin: Uint8Array): DriverAnswer {
  const row = requirePlugin(name)
  let [stdout, stderr] = ["", ""]
  const log = (line: string) => {
    stderr += `${line.toWellFormed()}\n`
  }
  const builtinsOn = (namespace: NamespaceFile) => {
    const builtins: Record<string, Builtin> = {}
    for (const delegate of pluginsInProcess(row)) {
      builtins[delegate.name] = ({ env, stdin }) =>
        serve(delegate, { env, stdin: () => stdin, log, namespace, builtinsOn: () => builtins })
    }
    return builtins
  }
  const write = (text: string) => {
    stdout += text
  }
  const reply = serve(row.plugin, { env, stdin: () => stdin, log, write, builtinsOn })
  return { exitCode: reply.exitCode, stdout: (stdout + reply.stdout).toWellFormed(), stderr }
}

/** Returns the path of a plugin's `main.ts`. */
function mainOf(plugin: string): string {
  const [main = ""] = new Bun.Glob(`{plugins,ipam,meta}/${plugin}/main.ts`).scanSync({ cwd: project, absolute: true })
  return main
}

const sides: Readonly<Record<Side, (plugin: string, env: DriverCall["env"], stdin: Uint8Array) => DriverAnswer>> = {
  executable: (plugin, env, stdin) => start([join(project, "dist/bin", plugin)], env, stdin),
  served: serveHere,
  "main.ts": (plugin, env, stdin) => start([process.execPath, mainOf(plugin)], env, stdin),
}

function stdinOf({ stdin, prevResultOf }: DriverCall, answers: readonly DriverAnswer[]): Uint8Array {
  const bytes = Buffer.from(stdin, "base64")
  if (prevResultOf === undefined) return bytes
  const answer = answers[prevResultOf]
  const prevResult = answer?.exitCode === 0 && answer.stdout !== "" ? JSON.parse(answer.stdout) : undefined
  return Buffer.from(JSON.stringify({ ...JSON.parse(bytes.toString()), prevResult }))
}

if (import.meta.main) {
  const [side = "", input = "", output = ""] = process.argv.slice(2)
  const calls: DriverCall[] = JSON.parse(readFileSync(input, "utf8"))
  const answers: DriverAnswer[] = []
  for (const call of calls) answers.push(sides[side as Side](call.plugin, call.env, stdinOf(call, answers)))
  writeFileSync(output, JSON.stringify(answers))
}
