import { type Introduction, introductionOf, isOfThisSuite } from "../../install/mod.ts"
import { encodeUtf8, json } from "../../pkg/engine/mod.ts"
import { execPlugin, formatCniArgs, requirePlugin } from "../../pkg/invoke/mod.ts"
import { isErrno, SyscallError } from "../../pkg/libc/mod.ts"
import { RESTORE_ARGUMENT, type RestoreAnswer, type RestoreRequest } from "../../pkg/skel/mod.ts"
import {
  type ErrorObject,
  type JsonObject,
  newestVersion,
  parseJsonObject,
  toErrorObject,
} from "../../pkg/types/mod.ts"
import { describedPlugins as suite } from "../../suite/plugins.ts"
import type { CachedChain } from "./attachments.ts"

/** How plugins are found and run. */
export interface PluginRuns {
  readonly path: readonly string[]
  readonly env: Readonly<Record<string, string | undefined>>
  readonly timeoutMs?: number
  readonly log: (text: string) => void
}

/** What all plugins are asked for. */
type RestoreOptions = Omit<RestoreRequest, "configs" | "attachments">

/** What one plugin has restored, and what it could not restore. */
export interface Restoration {
  readonly type: string
  readonly restored: RestoreAnswer["restored"]
  readonly failed: RestoreAnswer["failed"]
}

/** A plugin in a network's chain that is not of this suite: what it had on the host is not restored. */
export interface Foreign {
  readonly network: string
  readonly type: string
}

/** What became of all chains. */
export interface Outcome {
  readonly restorations: readonly Restoration[]
  readonly foreign: readonly Foreign[]
}

/**
 * Has every plugin of this suite restore what the host has lost of these attachments: one call for each executable, first those that make
 * interfaces. Never throws for a plugin.
 */
export function restoreChains(
  chains: readonly CachedChain[],
  options: RestoreOptions,
  runs: PluginRuns,
  isWanted: (type: string, owner: CachedChain) => boolean = () => true,
): Outcome {
  const restorations: Restoration[] = []
  const foreign = new Map<string, Foreign>()
  const types = [...new Set(chains.flatMap(({ chain }) => chain.map(({ type }) => type)))]
  const rows = types.map((type) => ({ type, row: suite.find(({ name }) => name === type) }))
  rows.sort((a, b) => Number(b.row?.kind === "interface") - Number(a.row?.kind === "interface"))
  for (const { type, row } of rows) {
    const ours = chains.filter(({ chain }) => chain.some((member) => member.type === type))
    const wanted = ours.filter((chain) => isWanted(type, chain))
    if (wanted.length === 0) continue
    const restores = row?.restores || (options.containers && row?.restoresInside)
    const restoration = restores ? restore(type, wanted, options, runs) : undefined
    if (restoration) restorations.push(restoration)
    else if (restores || !row) for (const { network } of ours) foreign.set(`${network} ${type}`, { network, type })
  }
  return { restorations, foreign: [...foreign.values()] }
}

/**
 * Whether an executable says that it is of this suite, when it is run as a person runs it. One that is missing, or is no program, is
 * not. Throws where it could not be looked for or started, or did not end by itself.
 */
function isOfSuite(type: string, { path }: PluginRuns): boolean {
  let file: string
  try {
    file = requirePlugin(type, path.join(":"))
  } catch (error) {
    if (error instanceof Error && error.cause !== undefined) throw error // a directory that may have it cannot be searched
    return false
  }
  const introduction = findIntroduction(file)
  if (introduction?.hasEnded === false)
    throw new Error(`Cannot tell whether "${file}" is of this suite: it did not end by itself`)
  return isOfThisSuite(introduction?.version)
}

/** What an executable prints of itself; undefined for a file that the kernel does not run. Throws `SyscallError` where another call failed. */
function findIntroduction(file: string): Introduction | undefined {
  try {
    return introductionOf(file)
  } catch (error) {
    const isExecve = error instanceof SyscallError && error.call === "execve"
    if (isExecve && isErrno(error, "ENOENT", "EACCES", "ENOEXEC")) return undefined
    throw error
  }
}

/** Calls a plugin for these attachments. Undefined for an executable that is not of this suite. Never throws. */
function restore(
  type: string,
  chains: readonly CachedChain[],
  options: RestoreOptions,
  runs: PluginRuns,
): Restoration | undefined {
  const indexes = new Map<JsonObject, number>()
  const attachments = chains.flatMap(({ containerId, ifName, netns, args, result, chain }) =>
    chain
      .filter((member) => member.type === type)
      .map(({ config, runtimeConfig }) => ({
        containerId,
        ifName,
        netns,
        config: indexes.getOrInsert(config, indexes.size),
        runtimeConfig,
        args: options.containers ? formatCniArgs(args) : "",
        result,
      })),
  )
  const request: RestoreRequest = { ...options, configs: [...indexes.keys()], attachments }
  const said: string[] = []
  try {
    const stdout = execPlugin({
      path: requirePlugin(type, runs.path.join(":")),
      args: [RESTORE_ARGUMENT],
      env: { ...runs.env, CNI_COMMAND: undefined },
      stdin: encodeUtf8(json.stringify(request)),
      log: (text) => said.push(`${text}\n`),
      ...(runs.timeoutMs === undefined ? {} : { timeoutMs: runs.timeoutMs }),
    })
    if (stdout.length === 0) return undefined
    const { restored, failed } = parseJsonObject(stdout, `answer of "${type}"`) as unknown as RestoreAnswer
    if (!Array.isArray(restored) || !Array.isArray(failed)) return undefined
    for (const text of said) runs.log(text)
    return { type, restored, failed }
  } catch (error) {
    try {
      if (!isOfSuite(type, runs)) return undefined
      for (const text of said) runs.log(text)
      return failed(type, error)
    } catch (reason) {
      return failed(type, reason)
    }
  }
}

function failed(type: string, error: unknown): Restoration {
  return { type, restored: [], failed: [{ error: toErrorObject(error, newestVersion) satisfies ErrorObject }] }
}
