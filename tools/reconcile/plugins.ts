import { type Introduction, introductionOf, isOfThisSuite } from "../../install/mod.ts"
import { encodeUtf8 } from "../../pkg/engine/mod.ts"
import { execPlugin, formatCniArgs, pluginEnvironment, requirePlugin } from "../../pkg/invoke/mod.ts"
import { isErrno, SyscallError } from "../../pkg/libc/mod.ts"
import { RESTORE, type RestoreAnswer, type RestoreRequest } from "../../pkg/skel/mod.ts"
import { type ErrorObject, newestVersion, parseJsonObject, stringifyJson, toErrorObject } from "../../pkg/types/mod.ts"
import { describedPlugins as suite } from "../../suite/plugins.ts"
import { readDeleted } from "./announcements.ts"
import { type CachedChain, isGone } from "./attachments.ts"

/** How plugins are found and run. */
export interface PluginRuns {
  readonly path: readonly string[]
  readonly env: Readonly<Record<string, string | undefined>>
  readonly timeoutMs?: number
  readonly log: (text: string) => void
}

/** What one plugin has made again, and what it could not make. */
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

/** A plugin of this suite that keeps something on the host. */
interface Restorer {
  readonly type: string
  readonly chains: readonly CachedChain[]
}

/**
 * Has every plugin of this suite make again what the host has lost of these attachments: one call for each executable, first those
 * that make interfaces. Executables that do not say that they are of this suite get no call of ours; where that cannot be told it is a
 * failure. Never throws for a plugin.
 */
export function restoreChains(
  chains: readonly CachedChain[],
  options: Omit<RestoreRequest, "takeBack" | "attachments">,
  runs: PluginRuns,
  isWanted: (type: string, owner: CachedChain) => boolean = () => true,
): Outcome {
  const foreign = new Map<string, Foreign>()
  const unknown: Restoration[] = []
  const types = [...new Set(chains.flatMap(({ chain }) => chain.map(({ type }) => type)))]
  const restorers = types.flatMap((type): Restorer[] => {
    const row = suite.find(({ name }) => name === type)
    const ours = chains.filter(({ chain }) => chain.some((member) => member.type === type))
    const wanted = ours.filter((chain) => isWanted(type, chain))
    if (wanted.length === 0) return []
    try {
      if (row && isOfSuite(type, runs))
        return row.restores || (options.containers && row.restoresInside) ? [{ type, chains: wanted }] : []
    } catch (error) {
      unknown.push(failed(type, error))
      return []
    }
    for (const { network } of ours) foreign.set(`${network} ${type}`, { network, type })
    return []
  })
  const rank = ({ type }: Restorer) => (suite.find(({ name }) => name === type)?.kind === "interface" ? 0 : 1)
  restorers.sort((a, b) => rank(a) - rank(b))
  return {
    restorations: [...unknown, ...restorers.map((restorer) => restore(restorer, options, runs))],
    foreign: [...foreign.values()],
  }
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

/**
 * Has the plugins that have made something again take back the rules of attachments that were deleted in the
 * meantime: a DEL was announced, or the record is gone. Returns the outcome without what they had made for these.
 */
export function takeBackDeleted(outcome: Outcome, chains: readonly CachedChain[], runs: PluginRuns): Outcome {
  const isAnnounced = readDeleted()
  const restorations = outcome.restorations.map((one): Restoration => {
    const { type, restored, failed } = one
    const isOf = (chain: CachedChain) => (item: RestoreAnswer["failed"][number] | RestoreAnswer["restored"][number]) =>
      item.network === chain.network && item.containerId === chain.containerId && item.ifName === chain.ifName
    const deleted = chains.filter(
      (chain) => [...restored, ...failed].some(isOf(chain)) && (isAnnounced(chain) || isGone(chain)),
    )
    if (deleted.length === 0) return one
    const remains = (item: Parameters<ReturnType<typeof isOf>>[0]) => !deleted.some((chain) => isOf(chain)(item))
    const taken = restore({ type, chains: deleted }, { takeBack: true, dryRun: false }, runs)
    return { type, restored: restored.filter(remains), failed: [...failed.filter(remains), ...taken.failed] }
  })
  return { ...outcome, restorations }
}

function restore(
  { type, chains }: Restorer,
  options: Omit<RestoreRequest, "attachments">,
  runs: PluginRuns,
): Restoration {
  const attachments = chains.flatMap(({ containerId, ifName, netns, args, chain }) =>
    chain
      .filter((member) => member.type === type)
      .map(({ config }) => ({ containerId, ifName, netns, args: formatCniArgs(args), config })),
  )
  const request: RestoreRequest = { ...options, attachments }
  const variables = { command: RESTORE, containerId: "", netns: "", ifName: "", args: "", path: runs.path.join(":") }
  try {
    const stdout = execPlugin({
      path: requirePlugin(type, variables.path),
      env: pluginEnvironment(runs.env, variables),
      stdin: encodeUtf8(stringifyJson(request)),
      log: (text) => runs.log(`${text}\n`),
      ...(runs.timeoutMs === undefined ? {} : { timeoutMs: runs.timeoutMs }),
    })
    const { restored, failed } = parseJsonObject(stdout, `answer of "${type}"`) as unknown as RestoreAnswer
    return { type, restored, failed }
  } catch (error) {
    return failed(type, error)
  }
}

function failed(type: string, error: unknown): Restoration {
  return { type, restored: [], failed: [{ error: toErrorObject(error, newestVersion) satisfies ErrorObject }] }
}
