import { introductionOf, isOfThisSuite } from "../../install/mod.ts"
import { encodeUtf8, json } from "../../pkg/engine/mod.ts"
import { execPlugin, requirePlugin } from "../../pkg/invoke/mod.ts"
import { isErrno, SyscallError } from "../../pkg/libc/mod.ts"
import { concat } from "../../pkg/netlink/mod.ts"
import { RESTORE_ARGUMENT, type RestoreAnswer, type RestoreRequest } from "../../pkg/skel/mod.ts"
import { isCniError, type JsonObject, newestVersion, parseJsonObject, toErrorObject } from "../../pkg/types/mod.ts"
import { describedPlugins as suite } from "../../suite/plugins.ts"
import { namesOfFiles } from "../node/mod.ts"
import type { CachedChain } from "./attachments.ts"

export interface PluginRuns {
  readonly path: readonly string[]
  readonly env: Readonly<Record<string, string | undefined>>
  readonly timeoutMs?: number
  readonly log: (text: string) => void
}

/** The options that are the same for all plugins. */
type RestoreOptions = Omit<RestoreRequest, "configs" | "attachments">

export interface Outcome {
  readonly restored: readonly (RestoreAnswer["restored"][number] & { readonly plugin: string })[]
  readonly failed: readonly (RestoreAnswer["failed"][number] & { readonly plugin: string })[]
  /** Plugins of other suites in networks, whose objects on the host are not restored. */
  readonly foreign: readonly { readonly network: string; readonly plugin: string }[]
}

/**
 * Runs every plugin of this suite to restore the lost host objects of these attachments. Runs each executable once,
 * interface plugins first. Never throws for a failed plugin.
 */
export function restoreChains(
  chains: readonly CachedChain[],
  options: RestoreOptions,
  runs: PluginRuns,
  isWanted: (type: string, owner: CachedChain) => boolean = () => true,
): Outcome {
  const [restored, failed]: [Outcome["restored"][number][], Outcome["failed"][number][]] = [[], []]
  const foreign = new Map<string, Outcome["foreign"][number]>()
  const types = [...new Set(chains.flatMap(({ chain }) => chain.map(({ type }) => type)))]
  const nameOf = namesOfFiles(runs.path)
  const rows = types.map((type) => ({ type, row: suite.find(({ name }) => name === nameOf(type)) }))
  rows.sort((a, b) => Number(b.row?.kind === "interface") - Number(a.row?.kind === "interface"))
  for (const { type, row } of rows) {
    const ours = chains.filter(({ chain }) => chain.some((member) => member.type === type))
    const wanted = ours.filter((chain) => isWanted(nameOf(type), chain))
    if (wanted.length === 0) continue
    const restores = row?.restores || (options.containers && row?.restoresInside)
    const answer = restores ? restore(type, wanted, options, runs) : undefined
    for (const one of answer?.restored ?? []) restored.push(Object.assign(one, { plugin: type }))
    for (const one of answer?.failed ?? []) failed.push(Object.assign(one, { plugin: type }))
    if (answer) continue
    if (restores || !row) for (const { network } of ours) foreign.set(`${network} ${type}`, { network, plugin: type })
  }
  return { restored, failed, foreign: [...foreign.values()] }
}

/**
 * Reports whether an executable, run without a command, identifies itself as part of this suite. Returns false if the
 * file is missing, or if the kernel cannot run it. Throws if the search or the start fails, or if the program does not
 * exit by itself.
 */
function isOfSuite(type: string, { path }: PluginRuns): boolean {
  try {
    const file = requirePlugin(type, path.join(":"))
    const { hasEnded, version } = introductionOf(file)
    if (hasEnded) return isOfThisSuite(version)
    throw new Error(`Cannot determine whether "${file}" is part of this suite: it did not exit`)
  } catch (error) {
    const isMissing = isCniError(error) && error.cause === undefined // otherwise a directory cannot be searched
    const isNoProgram = error instanceof SyscallError && error.call === "execve"
    if (isMissing || (isNoProgram && isErrno(error, "ENOENT", "EACCES", "ENOEXEC"))) return false
    throw error
  }
}

/** Runs a plugin to restore these attachments' objects. Undefined for another suite's executable. Never throws. */
function restore(
  type: string,
  chains: readonly CachedChain[],
  options: RestoreOptions,
  runs: PluginRuns,
): RestoreAnswer | undefined {
  const indexes = new Map<JsonObject, number>()
  const parts: Uint8Array[] = [] // in parts, because one growing text would need its memory several times
  for (const { text, chain } of chains) {
    for (const { config, runtimeConfig } of chain.filter((member) => member.type === type)) {
      const values = runtimeConfig === undefined ? "" : `,"runtimeConfig":${runtimeConfig}`
      const attachment = `${text},"config":${indexes.getOrInsert(config, indexes.size)}${values}}`
      parts.push(encodeUtf8(`${parts.length === 0 ? '{"attachments":[' : ","}${attachment}`))
    }
  }
  parts.push(encodeUtf8(`],${json.stringify({ ...options, configs: [...indexes.keys()] }).slice(1)}`))
  const said: string[] = []
  try {
    const stdout = execPlugin({
      path: requirePlugin(type, runs.path.join(":")),
      args: [RESTORE_ARGUMENT],
      env: { ...runs.env, CNI_COMMAND: undefined },
      stdin: concat(parts), // together, the parts are a RestoreRequest
      log: (text) => said.push(`${text}\n`),
      ...(runs.timeoutMs === undefined ? {} : { timeoutMs: runs.timeoutMs }),
    })
    if (stdout.length === 0) return undefined
    const { restored, failed } = parseJsonObject(stdout, `answer of "${type}"`) as unknown as RestoreAnswer
    if (!Array.isArray(restored) || !Array.isArray(failed)) return undefined
    for (const text of said) runs.log(text)
    return { restored, failed }
  } catch (error) {
    try {
      if (!isOfSuite(type, runs)) return undefined
      for (const text of said) runs.log(text)
      return failure(error)
    } catch (reason) {
      return failure(reason)
    }
  }
}

function failure(error: unknown): RestoreAnswer {
  return { restored: [], failed: [{ error: toErrorObject(error, newestVersion) }] }
}
