import type { Fields, Schema } from "../../../pkg/config/mod.ts"
import { decodeResult, encodeResult, supportedVersions } from "../../../pkg/types/mod.ts"
import { findPlugin } from "../../../tools/configuration/mod.ts"
import { valid } from "../../every-plugin/differential/configurations.ts"
import { type Chance, type ContainerNamespace, pluginEnv, pluginRow, type Stage } from "../../lab/mod.ts"
import type { CallCase, Source } from "./case.ts"
import { edgeOf, mutateText, mutateValue } from "./values.ts"

type Config = Record<string, unknown>

/** A plugin on a host, and valid input for it. */
export interface PluginSetup {
  readonly plugin: string
  readonly fields: Fields
  /** A configuration with which ADD succeeds. */
  readonly config: Config
  /** Further valid configurations, with more keys. */
  readonly others: readonly Config[]
  readonly env: Readonly<Record<string, string>>
  /** The result of ADD. */
  readonly result: Config
  /** Whether the host has everything that ADD of the plugin needs. If false, ADD always fails. */
  readonly works: boolean
  readonly pod: ContainerNamespace
}

/** Prepares a host for a plugin by adding and deleting one attachment. `path` is the plugin's `CNI_PATH`. */
export async function prepareSetup(stage: Stage, path: string, canAdd: boolean): Promise<PluginSetup> {
  const { plugin } = stage
  const works = canAdd && pluginRow(plugin).staged !== false
  const { attachment, pod, ifName } = await stage.attach()
  const result = (works ? await attachment.add() : { cniVersion: "1.1.0" }) as unknown as Config
  if (works) await attachment.del()
  const env = pluginEnv({ bin: "", verb: "ADD", containerId: pod.name, netns: pod.path, ifName, path, args: "" })
  const { prevResult = result } = attachment.config
  const common = { cniVersion: "1.1.0", name: "lab", type: plugin, prevResult }
  const others = (valid[plugin] ?? []).map((keys) => ({ ...common, ...(keys as Config), prevResult }))
  return {
    plugin,
    fields: findPlugin(plugin)?.fields ?? {},
    config: attachment.config,
    others,
    env,
    result,
    works,
    pod,
  }
}

const latin1 = (value: unknown) => Buffer.from(JSON.stringify(value) ?? "").toString("latin1")
const verbs = ["ADD", "ADD", "ADD", "CHECK", "DEL", "DEL", "GC", "STATUS"]

/** The generators of cases with their frequencies. */
const generators: readonly (readonly [number, (chance: Chance, setup: PluginSetup) => CallCase])[] = [
  [8, replaceOne],
  [3, mutateConfig],
  [2, breakText],
  [2, breakPrevResult],
  [2, breakEnvironment],
  [1, breakArgs],
  [1, breakAttachments],
]
const weight = generators.reduce((sum, [times]) => sum + times, 0)

/** Returns a random case with garbage in a plugin's input. */
export function makeCall(chance: Chance, setup: PluginSetup): CallCase {
  let at = chance.below(weight)
  for (const [times, generate] of generators) {
    if (at < times) return generate(chance, setup)
    at -= times
  }
  throw new Error("no way was chosen")
}

/** Returns a valid call during which one read of the plugin returns garbled data. */
export function makeReading(chance: Chance, setup: PluginSetup): CallCase {
  const verb = chance.of(["ADD", "ADD", "CHECK", "DEL", "GC", "STATUS"])
  // A damaged backup of tuning does not stop DEL, but its content is lost.
  const isBackup = setup.plugin === "tuning" && verb === "DEL"
  const files: Source[] = isBackup ? [] : ["file", "file"]
  const source = chance.of<Source>(["netlink", "netlink", "netlink", "output", "status", ...files])
  const isRun = source === "output" || source === "status"
  const config = isRun ? { ...setup.config, ipam: { type: "delegate" } } : setup.config
  const one = caseOf(setup, "read", verb, { ...config, ...attachmentsOf(setup, verb) })
  const garbled = { source, nth: chance.below(isRun ? 3 : source === "file" ? 14 : 40), seed: chance.below(2 ** 31) }
  return { ...one, garbled, ...(verb === "CHECK" || verb === "DEL" ? { added: true } : {}) }
}

/** Returns a call of a plugin that delegates to another IPAM plugin. */
export function delegating(setup: PluginSetup, verb: string, type: string): CallCase {
  return caseOf(setup, "answer of a delegate", verb, {
    ...setup.config,
    ...attachmentsOf(setup, verb),
    ipam: { type },
  })
}

function caseOf({ plugin, env }: PluginSetup, input: string, verb: string, config: unknown): CallCase {
  return { kind: "call", input, plugin, env: { ...env, CNI_COMMAND: verb }, stdin: latin1(config) }
}

/** Returns the keys that only GC needs. */
function attachmentsOf({ env }: PluginSetup, verb: string): Config {
  if (verb !== "GC") return {}
  return { "cni.dev/valid-attachments": [{ containerID: env.CNI_CONTAINERID, ifname: env.CNI_IFNAME }] }
}

/**
 * Returns a call with one value of a valid configuration replaced. If the plugin refuses the value, its error message
 * must name the value's key.
 */
function replaceOne(chance: Chance, setup: PluginSetup): CallCase {
  const verb = chance.of(["ADD", "ADD", "ADD", "STATUS", "CHECK", "DEL"])
  const config = structuredClone({ ...setup.config, ...attachmentsOf(setup, verb) })
  const says = replaceIn(chance, config, setup.fields)
  const one = caseOf(setup, "configuration, one value", verb, config)
  return setup.works && (verb === "ADD" || verb === "STATUS") ? { ...one, says } : one
}

/**
 * Words that an error message may contain instead of a key's name. Messages of the specification's library use other
 * words, and programs depend on them. Other messages name the missing condition of a valid value: VLANs in the kernel,
 * or the DHCP daemon.
 */
const others: Readonly<Record<string, readonly string[]>> = {
  cniVersion: ["version"],
  ips: ["requested"],
  vlanTrunk: ["VLANs"],
  type: ["IPAM", "DHCP daemon"],
}

/** Returns the keys of more than two characters in an object and in all nested objects. */
function keysIn(value: unknown): string[] {
  if (typeof value !== "object" || value === null) return []
  const keys = Array.isArray(value) ? [] : Object.keys(value).filter((key) => key.length > 2)
  return [...keys, ...Object.values(value).flatMap(keysIn)]
}

/**
 * Replaces the value of one known key at any depth, whether present or not. Returns words of which an error message
 * must contain at least one.
 */
function replaceIn(chance: Chance, object: Config, fields: Fields): string[] {
  const key = chance.of(Object.keys(fields))
  const schema = fields[key] as Schema
  const inner = object[key]
  if (schema.kind === "object" && Object.keys(schema.fields).length > 0 && chance.below(4) > 0) {
    const isObject = typeof inner === "object" && inner !== null && !Array.isArray(inner)
    const copy = isObject ? (inner as Config) : {}
    object[key] = copy
    return replaceIn(chance, copy, schema.fields)
  }
  if (
    schema.kind === "list" &&
    schema.of.kind === "object" &&
    Array.isArray(inner) &&
    inner.length > 0 &&
    chance.below(4) > 0
  )
    return replaceIn(chance, inner[chance.below(inner.length)] as Config, schema.of.fields)
  object[key] = edgeOf(chance, schema)
  const file = typeof object[key] === "string" && /file|dir|path|conf/i.test(key) ? [object[key]] : []
  return [...new Set([key, ...file, ...(others[key] ?? []), ...keysIn(object[key])])].slice(0, 20)
}

/** Returns a call with several arbitrary changes of the configuration. */
function mutateConfig(chance: Chance, setup: PluginSetup): CallCase {
  const verb = chance.of(verbs)
  let config: unknown = { ...chance.of([setup.config, ...setup.others]), ...attachmentsOf(setup, verb) }
  for (let times = 1 + chance.below(3); times > 0; times--) config = mutateValue(chance, config)
  return caseOf(setup, "configuration", verb, config)
}

function breakText(chance: Chance, setup: PluginSetup): CallCase {
  const one = caseOf(setup, "configuration, its text", chance.of(verbs), chance.of([setup.config, ...setup.others]))
  let { stdin } = one
  for (let times = 1 + chance.below(3); times > 0; times--) stdin = mutateText(chance, stdin)
  return { ...one, stdin }
}

/** Returns a call with a garbled `prevResult` in the format of any version. */
function breakPrevResult(chance: Chance, setup: PluginSetup): CallCase {
  const cniVersion = chance.of(supportedVersions)
  const given = (setup.config.prevResult ?? setup.result) as Config
  let prevResult: unknown
  try {
    prevResult = encodeResult(decodeResult(given, "1.1.0"), cniVersion)
  } catch {
    prevResult = given
  }
  for (let times = 1 + chance.below(2); times > 0; times--) prevResult = mutateValue(chance, prevResult)
  return caseOf(setup, "prevResult", chance.of(["ADD", "CHECK", "DEL"]), { ...setup.config, cniVersion, prevResult })
}

const oddVariables = [
  "",
  "a".repeat(300),
  "/proc/self/ns/net",
  "/proc/1/ns/uts",
  "/dev/null",
  "é😀",
  "lo",
  "..",
  "a/b",
  "%s%n",
  " ",
  "1",
]

/** Words for the environment variables in error messages of the specification's library. */
const subjects: Readonly<Record<string, readonly string[]>> = {
  CNI_CONTAINERID: ["container"],
  CNI_NETNS: ["namespace", "netns"],
  CNI_IFNAME: ["interface", "ifname"],
}

function breakEnvironment(chance: Chance, setup: PluginSetup): CallCase {
  const one = caseOf(setup, "environment", chance.of([...verbs, "VERSION", "add", "X", ""]), setup.config)
  const name = chance.of([
    "CNI_CONTAINERID",
    "CNI_NETNS",
    "CNI_IFNAME",
    "CNI_PATH",
    "CNI_NETNS_OVERRIDE",
    "TRACEPARENT",
  ])
  if (name === "CNI_NETNS_OVERRIDE") return { ...one, env: { ...one.env, [name]: chance.of(["", "0", "x", "é"]) } }
  const value =
    chance.below(2) === 0 ? chance.of(oddVariables) : mutateText(chance, one.env[name] ?? "").replaceAll("\0", "")
  const isNamed = one.env.CNI_COMMAND === "ADD" && /CONTAINERID|NETNS|IFNAME/.test(name) && setup.works
  return { ...one, env: { ...one.env, [name]: value }, ...(isNamed && { says: [name, ...(subjects[name] ?? [])] }) }
}

function breakArgs(chance: Chance, setup: PluginSetup): CallCase {
  const one = caseOf(setup, "CNI_ARGS", chance.of(verbs), setup.config)
  let args = chance.of([
    "IgnoreUnknown=1;K8S_POD_NAME=a;MAC=0a:00:00:00:00:03",
    "IP=10.22.0.9;GATEWAY=10.22.0.1",
    "MAC=zz",
    "IgnoreUnknown=maybe",
  ])
  for (let times = chance.below(3); times > 0; times--) args = mutateText(chance, args).replaceAll("\0", "")
  return { ...one, env: { ...one.env, CNI_ARGS: args } }
}

function breakAttachments(chance: Chance, setup: PluginSetup): CallCase {
  let config: unknown = attachmentsOf(setup, "GC")
  for (let times = 1 + chance.below(2); times > 0; times--) config = mutateValue(chance, config)
  return caseOf(setup, "attachments of GC", "GC", { ...setup.config, ...(config as Config) })
}
