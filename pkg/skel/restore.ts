import { decodeUtf8, encodeUtf8 } from "../engine/mod.ts"
import type { Reply } from "../invoke/mod.ts"
import { NamespaceFile } from "../netns/mod.ts"
import {
  CniError,
  Code,
  type ErrorObject,
  encodeResult,
  isJsonObject,
  type JsonObject,
  type NetworkConfig,
  newestVersion,
  type Owner,
  parseNetworkConfig,
  printJson,
  type Result,
  stringifyJson,
  toErrorObject,
  validateContainerId,
  validateInterfaceName,
} from "../types/mod.ts"
import { readInput } from "./input.ts"
import type { Answered } from "./plugin.ts"
import type { InsideCall, Restorable, RestorablePlugin } from "./restorable.ts"

/**
 * The argument with which `cni reconcile` calls a plugin of this suite, without `CNI_COMMAND`, to restore lost host
 * objects. The specification does not have it: a plugin of another suite behaves as if a person had started it.
 */
export const RESTORE_ARGUMENT = "restore"

/** The input on stdin: the attachments to all networks that use the plugin, in the order of their ADDs. */
export interface RestoreRequest {
  readonly dryRun: boolean
  /** Whether to flush flows that began without rules, even if all rules exist now. */
  readonly flows?: boolean
  /** Whether to also restore objects inside containers. */
  readonly containers?: boolean
  /** Whether to only move rules to iptables, before a return to the Go suite, which does not find others. */
  readonly toIptables?: boolean
  /** The configurations as CHECK gets them, without `prevResult` and `runtimeConfig`; each is listed once. */
  readonly configs: readonly JsonObject[]
  readonly attachments: readonly RestoreAttachment[]
}

/** An attachment, as after its ADD. */
export interface RestoreAttachment {
  readonly containerId: string
  readonly ifName: string
  readonly netns: string
  /** `CNI_ARGS` of ADD. "" if only objects on the host are restored. */
  readonly args: string
  /** The index of the attachment's configuration in `configs`. */
  readonly config: number
  readonly runtimeConfig?: JsonObject | undefined
  /** The chain's result of ADD. */
  readonly result: Result
}

/** A restored or missing object. Without an attachment it is an object that containers share. */
export interface RestoredItem {
  readonly network: string
  readonly containerId?: string
  readonly ifName?: string
  readonly what: string
}

/** The output on stdout. An object that could not be restored has the error that ADD would have. */
export interface RestoreAnswer {
  readonly restored: readonly RestoredItem[]
  readonly failed: readonly (Partial<Owner> & { readonly error: ErrorObject })[]
}

/** Returns the reply for `RESTORE_ARGUMENT`, with errors of single attachments. Throws code 5 and 6. */
export function restoreReply<C>(
  plugin: RestorablePlugin<C>,
  stdin: () => Uint8Array,
  log: (line: string) => void,
): Reply {
  const { dryRun, flows, containers, toIptables, configs, attachments } = readRequest(readInput(stdin))
  const restored: RestoredItem[] = []
  const failed: { error: ErrorObject }[] = []
  const refuse = (error: unknown, owner: Partial<Owner>) => {
    failed.push({ ...owner, error: toErrorObject(error, newestVersion) })
  }
  const read = attachmentReader(plugin, configs)
  const items = attachments.flatMap((one): Item<C>[] => {
    try {
      const { owner, ...rest } = read(one)
      const tell = (what: string) => void restored.push({ ...owner, what })
      return [{ ...rest, owner, tell, refuse: (error) => refuse(error, owner) }]
    } catch (error) {
      refuse(error, namesOf(one, configs))
      return []
    }
  })
  const tell = (network: string, what: string) => void restored.push({ network, what })
  if (items.length > 0) plugin.restore?.({ attachments: items, isDry: dryRun, flows, toIptables, tell, log })
  if (containers) for (const item of items) restoreInside(plugin, item, dryRun, log)
  return { stdout: printJson({ restored, failed } satisfies RestoreAnswer), exitCode: 0 }
}

/** An attachment to restore, with the input of a CHECK. */
interface Item<C> extends Restorable<C> {
  readonly args: string
  /** The configuration without `prevResult`. */
  readonly raw: JsonObject
}

/** Restores objects in one container. Passes any error to `refuse`, so that it does not stop the others. */
function restoreInside<C>(
  plugin: RestorablePlugin<C>,
  { owner: { containerId, ifName }, netns, args, raw: bare, result, config, tell, refuse }: Item<C>,
  isDry: boolean,
  log: (line: string) => void,
): void {
  try {
    using namespace = NamespaceFile.open(netns)
    if (namespace.isOwn)
      throw new CniError(Code.InvalidNetns, `Cannot restore the inside of "${netns}": it is the host's namespace`)
    const answer: InsideCall["answer"] = (_result, undo) => {
      undo?.keep()
      return {} as Answered
    }
    const { cniVersion } = parseNetworkConfig(bare)
    const raw = { ...bare, prevResult: encodeResult(result, cniVersion) }
    const network = parseNetworkConfig(raw)
    const stdin = encodeUtf8(stringifyJson(raw))
    const names = { verb: "CHECK", containerId, ifName, netns, args, path: "" } as const
    const what = plugin.restoreInside?.({ ...names, network, raw, stdin, namespace, log, answer }, config, isDry)
    if (what !== undefined) tell(what)
  } catch (error) {
    refuse(error)
  }
}

function readRequest(stdin: Uint8Array) {
  const { dryRun, flows, containers, toIptables, configs, attachments } = parseRequest(decodeUtf8(stdin))
  const areObjects = (list: unknown) => Array.isArray(list) && list.every(isJsonObject)
  if (typeof dryRun !== "boolean" || !areObjects(configs) || !areObjects(attachments))
    throw new CniError(Code.Decoding, `Cannot restore: expected "dryRun", configurations and attachments on stdin`)
  return {
    dryRun,
    flows: flows === true,
    containers: containers === true,
    toIptables: toIptables === true,
    configs: configs as JsonObject[],
    attachments: attachments as JsonObject[],
  }
}

/** Parses the input from the cni tool, which has already checked single values. */
function parseRequest(text: string): JsonObject {
  try {
    const request: unknown = JSON.parse(text)
    return isJsonObject(request) ? request : {}
  } catch {
    return {}
  }
}

/** Returns a reader of attachments. It parses a configuration again only for runtime values or arguments. */
function attachmentReader<C>(plugin: RestorablePlugin<C>, configs: readonly JsonObject[]) {
  const networks = new Map<JsonObject, NetworkConfig>()
  const shared = new Map<JsonObject, C>()
  return (given: JsonObject): Omit<Item<C>, "tell" | "refuse"> => {
    const { containerId, ifName, netns, args, config: index, runtimeConfig, result } = given
    const bare = configs[Number(index)]
    const names = [containerId, ifName, netns, args]
    if (!bare || !isResult(result) || !names.every((name) => typeof name === "string"))
      throw new CniError(Code.Decoding, "Cannot restore an attachment: expected its names, configuration and result")
    const [id, name, path, cniArgs] = names as [string, string, string, string]
    validateContainerId(id)
    validateInterfaceName(name)
    const network = networks.getOrInsertComputed(bare, () => parseNetworkConfig(bare))
    const owner = { network: network.name, containerId: id, ifName: name }
    const values = isJsonObject(runtimeConfig) ? { runtimeConfig } : undefined
    const raw = values ? { ...bare, ...values } : bare
    const read = (values?: { runtimeConfig: JsonObject }) =>
      plugin.config({ ...network, ...values }, { verb: "CHECK", args: cniArgs, raw: { ...bare, ...values } })
    const readShared = () => {
      if (cniArgs !== "" || (values && !plugin.withRuntimeConfig)) return read(values)
      const common = shared.getOrInsertComputed(bare, () => read())
      return (values && plugin.withRuntimeConfig?.(common, values.runtimeConfig)) ?? common
    }
    return { owner, netns: path, args: cniArgs, raw, result, config: readShared() }
  }
}

/** Checks only the lists of a result, because the rest was checked when the cache was read. */
function isResult(value: unknown): value is JsonObject & Result {
  return isJsonObject(value) && [value.interfaces, value.ips, value.routes].every(Array.isArray)
}

/** Returns the names of an unreadable attachment, as far as they are known. */
function namesOf({ containerId, ifName, config }: JsonObject, configs: readonly JsonObject[]): Partial<Owner> {
  const { name } = configs[Number(config)] ?? {}
  const network = typeof name === "string" ? { network: name } : {}
  const names = typeof containerId === "string" && typeof ifName === "string" ? { containerId, ifName } : {}
  return { ...network, ...names }
}
