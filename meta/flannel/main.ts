import { refuseExistingInterface } from "../../pkg/attachment/mod.ts"
import { PluginNotFound } from "../../pkg/invoke/mod.ts"
import { mismatch } from "../../pkg/ip/mod.ts"
import { Netns } from "../../pkg/netns/mod.ts"
import { type Answered, type Call, definePlugin, requireForAdd, runPlugin } from "../../pkg/skel/mod.ts"
import {
  AlreadyAttached,
  type Attachment,
  CniError,
  Code,
  isCniError,
  type JsonObject,
  member,
  type Owner,
  ownerOf,
  ownersOf,
  parseNetworkConfig,
} from "../../pkg/types/mod.ts"
import { Failures, Undo } from "../../pkg/undo/mod.ts"
import { type FlannelConfig, flannelFields, parseFlannelConfig } from "./config.ts"
import { delegateConfig, encodeConfig, requiredParts, subnetsOf, typeOf } from "./delegate-config.ts"
import { KeptConfigs } from "./kept.ts"
import { type NodeSubnets, readSubnetFile } from "./subnet-file.ts"

export { flannelKeyDocs } from "./config.ts"

/** Lets another plugin attach containers, with addresses of the subnet that flanneld assigned to this node. */
export const flannel = definePlugin<FlannelConfig>({
  name: "flannel",
  fields: flannelFields,
  config: parseFlannelConfig,
  add: addByDelegate,
  check: checkDelegate,
  del: deleteByDelegate,
  status: requireDelegate,
  gc: collectGarbage,
})

/** Adds by the delegate. Stores the configuration first, so that DEL finds it even if this process is killed. */
function addByDelegate(call: Call, config: FlannelConfig): Answered {
  const subnets = readSubnetFile(config.subnetFile)
  refuseRepetition(call)
  const kept = new KeptConfigs(config.dataDir)
  const owner = ownerOf(call)
  const wanted = delegateConfig(config, subnets)
  const [type, bytes] = [typeOf(wanted), encodeConfig(wanted)]
  using undo = new Undo(call.log)
  kept.write(owner, wanted)
  undo.defer(`attach by "${type}"`, () => {
    unlessNotFound(() => call.delegate.del(type, bytes))
    kept.remove(owner)
  })
  const result = explaining(config, subnets, () => {
    try {
      return call.delegate.add(type, bytes)
    } catch (error) {
      if (error instanceof AlreadyAttached) undo.keep()
      throw error
    }
  })
  return call.answer(result, undo)
}

/** Refuses a repeated ADD, because the delegate would get DEL after its failure, which would undo the first ADD. */
function refuseRepetition(call: Call): void {
  using sandbox = Netns.open(call.namespace)
  using inside = sandbox.openRoute()
  refuseExistingInterface(inside, call)
}

/**
 * Runs a delegate's DEL. A delegate that is not installed has created nothing, so that is not an error. A directory
 * that cannot be read is an error, because the delegate may be in it.
 */
function unlessNotFound(run: () => void): void {
  try {
    run()
  } catch (error) {
    if (!(error instanceof PluginNotFound) || error.cause !== undefined) throw error
  }
}

/** Adds advice to a delegate's error if the node's subnet has changed since earlier attachments. */
function explaining<T>(config: FlannelConfig, { subnets }: NodeSubnets, run: () => T): T {
  try {
    return run()
  } catch (error) {
    const advice = isCniError(error) ? adviceOnChange(config, subnets) : undefined
    if (!isCniError(error) || error instanceof AlreadyAttached || advice === undefined) throw error
    throw new CniError(error.code, error.message, { details: [error.details, advice].filter(Boolean).join("; ") })
  }
}

/** Returns the advice; undefined if all attachments of the network are in the node's current subnets. */
function adviceOnChange({ name, dataDir }: FlannelConfig, subnets: readonly string[]): string | undefined {
  const former = new Set(new KeptConfigs(dataDir).listOf(name).flatMap(({ config }) => changed(config, subnets)))
  return former.size > 0 ? whatToDo([...former], subnets) : undefined
}

/** Returns an attachment's subnets if they differ from the node's current subnets, or else none. */
function changed(kept: JsonObject | undefined, subnets: readonly string[]): string[] {
  const former = kept ? subnetsOf(kept) : []
  return former.join() === subnets.join() ? [] : former
}

function whatToDo(former: readonly string[], now: readonly string[]): string {
  const change = `the subnet of this node changed from ${former.join(", ")} to ${now.join(", ")}`
  return `${change}: delete the containers with addresses of the former subnet, then the bridge if it has the former gateway`
}

/**
 * Returns the type and the configuration, as in CHECK, of a delegate that restores its own objects on the host. `raw`
 * is flannel's configuration. Throws `CniError` if the delegate's configuration was not stored, or if users other than
 * root could have changed it.
 */
export function keptDelegate(raw: JsonObject, owner: Owner): { type: string; config: JsonObject } {
  const { dataDir } = parseFlannelConfig(parseNetworkConfig(raw, { lenient: true }), { verb: "DEL", args: "", raw })
  const configs = new KeptConfigs(dataDir)
  const kept = configs.find(owner)
  if (!kept) throw new CniError(Code.Io, `Cannot find the delegate's configuration in "${dataDir}"`)
  if (!kept.config) throw configs.unreadable(kept)
  return { type: typeOf(kept.config), config: withPresent(raw, kept.config, ofAttachment) }
}

function configFor({ raw }: Call, kept: JsonObject, keys: readonly string[]): Uint8Array {
  return encodeConfig(withPresent(raw, kept, keys))
}

/** Returns the stored configuration with the runtime's current values instead of the values at ADD. */
function withPresent(raw: JsonObject, kept: JsonObject, keys: readonly string[]): JsonObject {
  const current: JsonObject = {}
  for (const key of ["cniVersion", ...keys]) {
    const value = member(raw, key)
    if (value !== undefined) current[key] = value
  }
  return { ...kept, ...current }
}

const ofAttachment = ["prevResult", "runtimeConfig"]

function checkDelegate(call: Call, config: FlannelConfig): void {
  const configs = new KeptConfigs(config.dataDir)
  const kept = configs.find(ownerOf(call))
  if (!kept)
    throw mismatch("the delegate's configuration", `one of "${call.containerId}" in "${config.dataDir}"`, "none")
  if (!kept.config) throw configs.unreadable(kept)
  const { subnets } = readSubnetFile(config.subnetFile)
  const former = changed(kept.config, subnets)
  if (former.length > 0) {
    const found = `Check of the subnet failed: expected ${former.join(", ")}, found ${subnets.join(", ")}`
    throw new CniError(Code.Internal, found, { details: whatToDo(former, subnets) })
  }
  call.delegate.check(typeOf(kept.config), configFor(call, kept.config, ofAttachment))
}

/** Deletes by the delegate, with the configuration of ADD, which stays stored until the delegate has succeeded. */
function deleteByDelegate(call: Call, config: FlannelConfig): void {
  const configs = new KeptConfigs(config.dataDir)
  const owner = ownerOf(call)
  const kept = configs.find(owner)
  if (kept?.config) call.delegate.del(typeOf(kept.config), configFor(call, kept.config, ofAttachment))
  else deleteWithoutKept(call, config)
  configs.remove(owner, kept)
}

/**
 * Runs the delegate's DEL if no configuration is stored, because nothing was added or the file was deleted. This
 * removes the objects that the delegate finds by their owner. Errors are only logged, because the delegate may need the
 * missing configuration.
 */
function deleteWithoutKept(call: Call, config: FlannelConfig): void {
  const present = requiredParts(config)
  try {
    call.delegate.del(typeOf(present), configFor(call, present, ofAttachment))
  } catch (error) {
    if (!isCniError(error)) throw error
    call.log(`no configuration of the delegate was stored, and DEL with the current one failed: ${error.message}`)
  }
}

function requireDelegate(call: Call, config: FlannelConfig): void {
  requireForAdd(() => new KeptConfigs(config.dataDir).requireWritable())
  const subnets = requireForAdd(() => readSubnetFile(config.subnetFile))
  const wanted = delegateConfig(config, subnets)
  explaining(config, subnets, () => call.delegate.status(typeOf(wanted), encodeConfig(wanted)))
  const advice = adviceOnChange(config, subnets.subnets)
  if (advice !== undefined) call.log(advice)
}

/** Runs GC of each delegate that has attached containers of this network, then removes stale stored configurations. */
function collectGarbage(call: Call, config: FlannelConfig, attachments: readonly Attachment[]): void {
  const { name } = config
  const configs = new KeptConfigs(config.dataDir)
  const present = requiredParts(config)
  const byType = new Map([[typeOf(present), present]])
  for (const { config: kept } of configs.listOf(name)) if (kept) byType.set(typeOf(kept), kept)
  const valid = attachments.map(({ containerID, ifname }) => ({ containerID, ifname }))
  const failures = new Failures()
  for (const [type, used] of byType) {
    const bytes = configFor(call, { ...used, "cni.dev/valid-attachments": valid }, [])
    failures.attempt(`collect the garbage of "${type}"`, () => call.delegate.gc(type, bytes))
  }
  if (!failures.any)
    failures.attempt("remove stale records", () => configs.removeStale(name, ownersOf(name, attachments)))
  failures.throwIfAny()
}

if (import.meta.main) runPlugin(flannel)
