import { afterAll, beforeAll, expect } from "bun:test"
import { existsSync } from "node:fs"
import {
  fuzzDirectory,
  fuzzProgram,
  neededDirectories,
  readReports,
  sanitizedPlugins,
} from "../../scripts/sanitized.ts"
import { buildLauncher } from "../executable/launcher.ts"
import { Chance, type CProgram, pluginEnv, pluginsAs, Stage, seed, testPlugins } from "../lab/mod.ts"
import { type FuzzedCall, mutate } from "./fuzzing.ts"

/** 7 plugins: 20,020 in all. */
const callsInOneProcess = 2500
const processes = 360
const chunk = 500

let launcher: CProgram
beforeAll(async () => {
  if (!existsSync(fuzzProgram)) throw new Error("Run this by `npm run test:sanitized`, which builds what it needs")
  launcher = await buildLauncher()
})
afterAll(() => launcher[Symbol.asyncDispose]())

/** A root in which a configuration that names any directory does no harm. */
function inOwnRoot(program: string): [string, string[]] {
  const directories = ["/proc", "/sys", "/var/lib/cni", "/run/cni", "/run/netns", ...neededDirectories]
  return [launcher.path, [...directories.flatMap((directory) => ["-b", `${directory}=${directory}`]), program]]
}

/** Calls of a plugin that are nearly right, with and without what it has answered before. */
async function callsOf(stage: Stage, chance: Chance, count: number, path: string): Promise<FuzzedCall[]> {
  const { attachment, pod, ifName } = await stage.attach()
  const prevResult = await attachment.add()
  const env = pluginEnv({ bin: "", verb: "ADD", containerId: pod.name, netns: pod.path, ifName, path, args: "K=V" })
  const valid = { plugin: stage.plugin, env }
  return Array.from({ length: count }, (_, at) => {
    const config = at % 3 === 0 ? { ...attachment.config, prevResult } : attachment.config
    return mutate(chance, { ...valid, config })
  })
}

testPlugins(
  pluginsAs(),
  "%s answers what is nearly right, many calls in one process, and no sanitizer complains",
  async (plugin) => {
    await using stage = await Stage.create(plugin)
    const calls = await callsOf(stage, new Chance(seed), callsInOneProcess, fuzzDirectory)
    for (let from = 0; from < calls.length; from += chunk) {
      const input = calls.slice(from, from + chunk).map((call) => `${JSON.stringify(call)}\n`)
      const [file, args] = inOwnRoot(fuzzProgram)
      const { stderr, exitCode } = await stage.host.tryExec(file, args, { input: input.join(""), timeoutMs: 200_000 })
      const last = stderr.trimEnd().split("\n").slice(-12).join("\n")
      expect({ exitCode, last }).toEqual({ exitCode: 0, last: expect.stringMatching(/All are answered$/) })
    }
    expect(readReports()).toEqual([])
  },
  900_000,
)

testPlugins(
  pluginsAs(),
  "%s answers what is nearly right, each call a process, and no sanitizer complains",
  async (plugin) => {
    await using stage = await Stage.create(plugin)
    const calls = await callsOf(stage, new Chance(seed + 1), processes, sanitizedPlugins)
    for (const call of calls) {
      const input = Buffer.from(call.stdin, "latin1")
      const [file, args] = inOwnRoot(`${sanitizedPlugins}/${plugin}`)
      const { stdout, stderr, exitCode } = await stage.host.tryExec(file, args, { env: call.env, input })
      const answer = stdout === "" ? undefined : JSON.parse(stdout)
      if (exitCode !== 0 && !(exitCode === 1 && typeof answer?.code === "number" && answer.msg !== ""))
        throw new Error(`${JSON.stringify(call)}: ${exitCode}\n${stdout}\n${stderr}`)
    }
    expect(readReports()).toEqual([])
  },
  900_000,
)
