import { encodeUtf8 } from "../engine/mod.ts"
import type { Reply } from "../invoke/mod.ts"
import { NamespaceFile } from "../netns/mod.ts"
import {
  CniError,
  Code,
  type ErrorObject,
  isJsonObject,
  type JsonObject,
  newestVersion,
  type Owner,
  parseNetworkConfig,
  printJson,
  stringifyJson,
  toErrorObject,
  validateContainerId,
  validateInterfaceName,
} from "../types/mod.ts"
import { parseInput, readInput } from "./input.ts"
import type { Answered } from "./plugin.ts"
import type { InsideCall, Restorable, RestorablePlugin } from "./restorable.ts"

/**
 * The argument by which `cni reconcile` asks a plugin of this suite to restore what the host has lost, without `CNI_COMMAND`. It is not a
 * part of the specification: a plugin of another suite does what it does for a person who runs it.
 */
export const RESTORE_ARGUMENT = "restore"

/** What stdin has: the attachments of all networks that the plugin is in, in the order of their ADDs. */
export interface RestoreRequest {
  readonly dryRun: boolean
  /** Flush the flows that began without rules also where all rules are there by now. */
  readonly flows?: boolean
  /** Make again also what lies in the containers. */
  readonly containers?: boolean
  /** Move the rules of these attachments from nf_tables to iptables instead: the Go suite's plugins come back, and find only these. */
  readonly toIptables?: boolean
  readonly attachments: readonly {
    readonly containerId: string
    readonly ifName: string
    readonly netns: string
    /** `CNI_ARGS` of ADD. */
    readonly args: string
    /** As CHECK gets it, with `prevResult`. */
    readonly config: JsonObject
  }[]
}

/** One thing that was made again, or would be. Without an attachment it is something that containers share. */
export interface RestoredItem {
  readonly network: string
  readonly containerId?: string
  readonly ifName?: string
  readonly what: string
}

/** What stdout has. What could not be made has its error, as ADD would have it. */
export interface RestoreAnswer {
  readonly restored: readonly RestoredItem[]
  readonly failed: readonly (Partial<Owner> & { readonly error: ErrorObject })[]
}

/** Serves a call with `RESTORE_ARGUMENT`. What is wrong with one attachment is in the answer, and the others go on. Throws code 5 and 6. */
export function restoreReply<C>(
  plugin: RestorablePlugin<C>,
  stdin: () => Uint8Array,
  log: (line: string) => void,
): Reply {
  const { dryRun, flows, containers, toIptables, attachments } = readRequest(parseInput(readInput(stdin)))
  const restored: RestoredItem[] = []
  const failed: { error: ErrorObject }[] = []
  const refuse = (error: unknown, owner: Partial<Owner>) => {
    failed.push({ ...owner, error: toErrorObject(error, newestVersion) })
  }
  const items = attachments.flatMap((one): Item<C>[] => {
    try {
      return [readAttachment(plugin, one, (owner, what) => restored.push({ ...owner, what }), refuse)]
    } catch (error) {
      refuse(error, namesOf(one))
      return []
    }
  })
  const tell = (network: string, what: string) => void restored.push({ network, what })
  if (items.length > 0) plugin.restore?.({ attachments: items, isDry: dryRun, flows, toIptables, tell, log })
  if (containers) for (const item of items) restoreInside(plugin, item, dryRun, log)
  return { stdout: printJson({ restored, failed } satisfies RestoreAnswer), exitCode: 0 }
}

/** An attachment, with the call as CHECK has it. */
interface Item<C> extends Restorable<C> {
  readonly call: Omit<InsideCall, "namespace" | "log" | "answer" | "stdin">
}

/** What a container has too much of takes no longer than a call may. Never throws for one container. */
function restoreInside<C>(
  plugin: RestorablePlugin<C>,
  { call, config, tell, refuse }: Item<C>,
  isDry: boolean,
  log: (line: string) => void,
): void {
  try {
    using namespace = NamespaceFile.open(call.netns)
    if (namespace.isOwn)
      throw new CniError(Code.InvalidNetns, `Cannot restore what lies in "${call.netns}": it is the host's namespace`)
    const answer: InsideCall["answer"] = (_result, undo) => {
      undo?.keep()
      return {} as Answered
    }
    const stdin = encodeUtf8(stringifyJson(call.raw))
    const what = plugin.restoreInside?.({ ...call, stdin, namespace, log, answer }, config, isDry)
    if (what !== undefined) tell(what)
  } catch (error) {
    refuse(error)
  }
}

function readRequest({ dryRun, flows, containers, toIptables, attachments }: JsonObject): {
  dryRun: boolean
  flows: boolean
  containers: boolean
  toIptables: boolean
  attachments: readonly JsonObject[]
} {
  const isRequest = typeof dryRun === "boolean" && Array.isArray(attachments) && attachments.every(isJsonObject)
  const isTrue = (value: unknown) => value === true
  if (isRequest)
    return {
      dryRun,
      flows: isTrue(flows),
      containers: isTrue(containers),
      toIptables: isTrue(toIptables),
      attachments,
    }
  throw new CniError(Code.Decoding, `Cannot restore: expected "dryRun" and a list of attachments on stdin`)
}

function readAttachment<C>(
  plugin: RestorablePlugin<C>,
  given: JsonObject,
  made: (owner: Owner, what: string) => void,
  refuse: (error: unknown, owner: Owner) => void,
): Item<C> {
  const { containerId, ifName, netns, args, config: raw } = given
  if (![containerId, ifName, netns, args].every((part) => typeof part === "string") || !isJsonObject(raw))
    throw new CniError(Code.Decoding, `Cannot restore an attachment: expected its names and its configuration`)
  const [id, name] = [String(containerId), String(ifName)]
  validateContainerId(id)
  validateInterfaceName(name)
  const network = parseNetworkConfig(raw)
  const owner = { network: network.name, containerId: id, ifName: name }
  const { prevResult } = network
  if (!prevResult) throw new CniError(Code.InvalidNetworkConfig, `Cannot restore an attachment: no prevResult`)
  const named = { containerId: id, ifName: name, netns: String(netns), args: String(args) }
  return {
    call: { ...named, verb: "CHECK", path: "", network, raw },
    owner,
    netns: String(netns),
    result: prevResult,
    config: plugin.config(network, { verb: "CHECK", args: String(args), raw }),
    tell: (what) => made(owner, what),
    refuse: (error) => refuse(error, owner),
  }
}

/** What can be told of an attachment that cannot be read. */
function namesOf({ containerId, ifName, config }: JsonObject): Partial<Owner> {
  const network = isJsonObject(config) && typeof config.name === "string" ? { network: config.name } : {}
  const names = typeof containerId === "string" && typeof ifName === "string" ? { containerId, ifName } : {}
  return { ...network, ...names }
}
