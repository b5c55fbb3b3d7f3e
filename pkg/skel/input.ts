import type { Environment } from "../invoke/mod.ts"
import {
  CniError,
  Code,
  isCniError,
  type JsonObject,
  member,
  messageOf,
  type NetworkConfig,
  newestVersion,
  parseJsonObject,
  parseNetworkConfig,
  validateContainerId,
  validateInterfaceName,
} from "../types/mod.ts"
import type { Verb } from "./plugin.ts"

type Variable = "CNI_CONTAINERID" | "CNI_NETNS" | "CNI_IFNAME" | "CNI_PATH"

/** The variables that a verb requires. Only DEL works without a namespace, because it may no longer exist. */
const required: Readonly<Record<Verb, readonly Variable[]>> = {
  ADD: ["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_PATH"],
  DEL: ["CNI_CONTAINERID", "CNI_IFNAME", "CNI_PATH"],
  CHECK: ["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_PATH"],
  GC: ["CNI_PATH"],
  STATUS: ["CNI_PATH"],
  VERSION: [],
}

export function isVerb(command: string): command is Verb {
  return Object.hasOwn(required, command)
}

export const verbs = Object.keys(required)

/** The parameters of a call, CNI 1.1.0 "Parameters". A parameter that the verb does not have is "". */
export interface Variables {
  containerId: string
  netns: string
  ifName: string
  args: string
  path: string
}

/**
 * Reads the `CNI_*` variables of a command. Throws code 4 for the first invalid value, otherwise one error for all
 * missing variables. An unknown command requires no variables.
 */
export function readVariables(command: string, env: Environment): Variables {
  const needed = isVerb(command) ? required[command] : []
  const missing: string[] = []
  for (const name of needed) {
    const value = env[name] ?? ""
    if (value === "") missing.push(name)
    else if (name === "CNI_CONTAINERID") validateContainerId(value)
    else if (name === "CNI_IFNAME") validateInterfaceName(value)
  }
  if (missing.length > 0) {
    throw new CniError(Code.InvalidEnvironment, `required env variables [${missing.join(",")}] missing`, {
      details: `${command} needs ${needed.join(", ")}, which the container runtime sets`,
    })
  }
  const isAttachment = command === "ADD" || command === "DEL" || command === "CHECK"
  const ofAttachment = (name: string) => (isAttachment ? (env[name] ?? "") : "")
  return {
    containerId: ofAttachment("CNI_CONTAINERID"),
    netns: ofAttachment("CNI_NETNS"),
    ifName: ofAttachment("CNI_IFNAME"),
    args: env.CNI_ARGS ?? "",
    path: env.CNI_PATH ?? "",
  }
}

/** Reads stdin. Throws code 5 if that fails. */
export function readInput(stdin: () => Uint8Array): Uint8Array {
  try {
    return stdin()
  } catch (error) {
    const reason = messageOf(error)
    throw new CniError(Code.Io, `error reading from stdin: ${reason}`)
  }
}

/** Parses the configuration as a JSON object. Throws code 6. */
export function parseInput(bytes: Uint8Array): JsonObject {
  return unmarshal(() => parseJsonObject(bytes, "text on stdin"))
}

/** Returns the version in a configuration for the error object, even an invalid one, or else the newest version. */
export function versionOf(raw: JsonObject): string {
  const version = member(raw, "cniVersion") ?? ""
  if (typeof version !== "string") return newestVersion
  return version === "" ? "0.1.0" : version
}

/**
 * Reads the configuration's common keys. Throws code 6 or 7. A command that creates and checks nothing, such as DEL,
 * uses the readable keys and logs the others.
 */
export function parseNetwork(raw: JsonObject, command: string, log: (line: string) => void): NetworkConfig {
  return unmarshal(() => {
    try {
      return parseNetworkConfig(raw)
    } catch (error) {
      if (command === "ADD" || command === "CHECK" || command === "STATUS") throw error
      const network = parseNetworkConfig(raw, { lenient: true })
      log(`${command} continues without a part of the configuration: ${String(error)}`)
      return network
    }
  })
}

/** Runs `parse`. A decoding error gets a prefix in upstream's spelling, for which programs search. */
function unmarshal<T>(parse: () => T): T {
  try {
    return parse()
  } catch (error) {
    if (!isCniError(error, Code.Decoding)) throw error
    throw new CniError(Code.Decoding, `error unmarshall network config: ${error.message}`, {
      details: error.details ?? "",
    })
  }
}
