import { NamespaceFile } from "../netns/mod.ts"
import { atLeast, CniError, Code, type NetworkConfig } from "../types/mod.ts"
import type { Verb } from "./plugin.ts"

/** The versions of the specification that introduced these verbs. */
const since: { readonly [verb in Verb]?: string } = { CHECK: "0.4.0", GC: "1.1.0", STATUS: "1.1.0" }

/**
 * Checks that a verb exists in the configuration's version, and that the plugin supports exactly that version, because
 * versions are not negotiated. Throws code 1. For CHECK, GC and STATUS, throws code 6 if a version cannot be read.
 */
export function checkVersion(verb: Verb, configVersion: string, supported: readonly string[]): void {
  const first = since[verb]
  if (first !== undefined && !atLeast(configVersion, first)) {
    throw new CniError(Code.IncompatibleVersion, `config version does not allow ${verb}`, {
      details: `${verb} exists since version ${first}, and the configuration's cniVersion is "${configVersion}"`,
    })
  }
  if (first !== undefined && !supported.some((version) => atLeast(version, configVersion))) {
    throw mismatch(`plugin version does not allow ${verb}`, configVersion, supported)
  }
  if (!supported.includes(configVersion)) throw mismatch("incompatible CNI versions", configVersion, supported)
}

function mismatch(msg: string, configVersion: string, supported: readonly string[]): CniError {
  const listed = supported.map((version) => `"${version}"`).join(" ")
  return new CniError(Code.IncompatibleVersion, msg, {
    details: `config is "${configVersion}", plugin supports [${listed}]`,
  })
}

/** Matches the path of a process's namespace, which leads to another namespace if a new process gets the ID. */
const ofProcess = /\/proc\/\d+\/(task\/\d+\/)?ns\/net$/

/**
 * Checks and returns the namespace for a verb. Throws code 8 if it is the plugin's own namespace, because the verb
 * would change the host. The exception is a DEL with a path like /proc/PID/ns/net: the container's process has then
 * ended, and a process of the host has its ID. The container's namespace no longer exists, so the returned path is "".
 * Compares the open namespace, so a later change of the path has no effect. `CNI_NETNS_OVERRIDE` allows the plugin's
 * own namespace.
 */
export function containerNamespace(verb: Verb, found: NamespaceFile, override = ""): NamespaceFile {
  if (verb !== "ADD" && verb !== "DEL") return found
  if (override === "1" || override.toLowerCase() === "true" || !found.isOwn) return found
  if (verb === "DEL" && ofProcess.test(found.path)) return NamespaceFile.open("")
  throw new CniError(Code.InvalidNetns, "plugin's netns and netns from CNI_NETNS should not be the same", {
    details: `CNI_NETNS "${found.path}" is the namespace that this plugin runs in; nothing was changed`,
  })
}

/**
 * Reports whether a GC has a list of valid attachments. If not, logs a line, and the GC must remove nothing. A missing
 * list is not an error, because upstream's `cnitool gc` calls plugins in this way. An empty list, or `null` as Go
 * writes it, means that no attachment is valid.
 */
export function knowsAttachments({ name, attachments }: NetworkConfig, log: (line: string) => void): boolean {
  if (attachments !== undefined) return true
  log(
    `GC of network "${name}" has no "cni.dev/valid-attachments": the valid attachments are unknown, and nothing was deleted`,
  )
  return false
}
