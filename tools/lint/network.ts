import { encodeUtf8 } from "../../pkg/engine/mod.ts"
import { validatePluginName } from "../../pkg/invoke/mod.ts"
import { parseNetworkList, parseSinglePlugin } from "../../pkg/libcni/mod.ts"
import { isCniError, type JsonObject, parseJson, parseNetworkConfig, validateNetworkName } from "../../pkg/types/mod.ts"
import {
  anything,
  findPlugin,
  type Known,
  mergeFields,
  networkKeys,
  pluginKeys,
  reservedKeys,
} from "../configuration/mod.ts"
import { type Attachment, isManifest } from "./attachments.ts"
import { itemsAt, memberOf, type Node, nodeAt, type ObjectNode, offsetOf, textAt } from "./document.ts"
import type { Findings, Source } from "./findings.ts"
import { checkDuplicates, checkKeys, plainValue, startOf } from "./keys.ts"
import { hasPlaceholder, isPlaceholder } from "./placeholder.ts"

/** A plugin of a network, with the file that contains it. */
export interface Entry {
  readonly source: Source
  readonly node: Node
  /** The plugin's own name, even if its file has another name. */
  readonly type: string
  /** The plugin's tables of keys. Undefined for a plugin of another suite. */
  readonly known: Known | undefined
  /** The IPAM plugin of this suite that the plugin runs, if any. */
  readonly ipam: Known | undefined
}

export interface LintNetwork {
  readonly source: Source
  readonly name: string
  /** The value of "cniVersion"; "" if absent. */
  readonly cniVersion: string
  /** The version that runtimes choose from those in the file. */
  readonly version: string
  readonly entries: readonly Entry[]
}

/**
 * Reads a network's file. Reports faults of its text, keys and values. Returns undefined if the other rules cannot
 * check the file. `beside` returns files from the network's directory, each with one plugin.
 */
export function readLintNetwork(
  source: Source,
  findings: Findings,
  beside: (name: string) => readonly Source[],
  nameOf: (type: string) => string,
): LintNetwork | undefined {
  if (!checkSyntax(source, findings)) return undefined
  const { tree, file } = source
  if (tree?.kind !== "object") {
    findings.add(source, tree, "wrong-value", "a network is a JSON object")
    return undefined
  }
  const looksLikeList = memberOf(tree, "plugins") !== undefined
  const isList = source.attachment === undefined ? file.endsWith(".conflist") : looksLikeList
  if (isList !== looksLikeList && (looksLikeList || memberOf(tree, "type") !== undefined)) {
    const wanted = looksLikeList
      ? {
          what: `runtimes read "plugins" only from files that end with .conflist`,
          hint: "rename the file to end with .conflist",
        }
      : {
          what: "a single plugin instead of a list of plugins",
          hint: 'put the object into "plugins", or rename the file to end with .conf',
        }
    findings.add(
      source,
      memberOf(tree, looksLikeList ? "plugins" : "type")?.keyNode,
      "wrong-extension",
      wanted.what,
      wanted,
    )
    return undefined
  }
  checkDuplicates(source, tree, findings)
  const ownName = textAt(tree, ["name"]) ?? ""
  const name = ownName || (source.attachment?.name ?? "")
  const inFile = isList ? listEntries(source, tree, findings, nameOf) : [entryOf(source, tree, nameOf)]
  const isFile = source.attachment === undefined
  const entries = [...inFile, ...(isList && isFile ? besideEntries(tree, beside(name), findings, nameOf) : [])]
  if (isList && !looksLikeList && entries.length === 0) {
    const message = `"plugins" is missing, and no plugin is in a directory "${name}" beside the file`
    findings.add(source, startOf(tree), "missing-key", message)
  }
  for (const entry of entries) checkEntry(entry, findings, isList)
  const cniVersion = textAt(tree, ["cniVersion"]) ?? ""
  for (const entry of entries) checkByParser(entry, { name, cniVersion }, findings)
  const isNameless = !isList && isFile && memberOf(tree, "name") === undefined
  if (isNameless) noteMissingName(source, tree, findings)
  const filledIn = isNameless ? "net" : isFile || ownName !== "" ? undefined : name || "net"
  const version = checkByLibrary(source, findings, isList, filledIn) || "0.1.0"
  return { source, name, cniVersion, version, entries }
}

/** Reports a missing name as information: the file may be the content of `spec.config`, which needs none. */
function noteMissingName(source: Source, tree: ObjectNode, findings: Findings): void {
  const isLoopback = textAt(tree, ["type"]) === "loopback"
  const hint = isLoopback
    ? 'containerd and CRI-O set up "lo" without this file'
    : "Multus uses the name of the NetworkAttachmentDefinition; other runtimes reject the file"
  findings.add(source, startOf(tree), "missing-key", '"name" is missing', { severity: "info", hint })
}

function checkSyntax(source: Source, findings: Findings): boolean {
  if (source.unread !== undefined) {
    findings.add(source, undefined, "json-syntax", `the file cannot be read: ${source.unread}`)
    return false
  }
  if (source.attachment === undefined && isManifest(source.file)) {
    findings.add(source, undefined, "json-syntax", "no NetworkAttachmentDefinition in this file")
    return false
  }
  if (source.attachment !== undefined && source.attachment.config === undefined) {
    checkNoConfig(source, source.attachment, findings)
    return false
  }
  try {
    parseJson(source.text, "file")
    return source.tree !== undefined
  } catch (error) {
    if (!isCniError(error)) throw error
    const [, line = "1", column = "1", reason] = /line (\d+), column (\d+): (.*)/.exec(error.message) ?? []
    const start = offsetOf(source.text, { line: Number(line), column: Number(column) })
    const hint = hintFor(source.text, start, reason ?? "")
    const place = { start, end: start + 1 }
    findings.add(source, place, "json-syntax", reason ?? error.message, hint === undefined ? {} : { hint })
    return false
  }
}

/** Reports a missing `spec.config`. Multus then uses a network file with the object's name on each node. */
function checkNoConfig(source: Source, { isObject, name }: Attachment, findings: Findings): void {
  if (isObject) {
    findings.add(source, undefined, "wrong-value", '"spec.config" is an object: expected a string with JSON')
    return
  }
  const message = `"spec.config" is missing: Multus reads the network "${name}" from a file of each node`
  findings.add(source, undefined, "missing-key", message, { severity: "info" })
}

function hintFor(text: string, at: number, reason: string): string | undefined {
  if (/found "[}\]]"/.test(reason)) return 'remove the "," before it'
  if (text.startsWith("\ufeff")) return "the file begins with a byte order mark: save it without one"
  if (/^(\/[/*]|#)/.test(text.slice(at))) return "JSON has no comments"
  if (text.startsWith("{{", at - 1)) return "the placeholder of a template was not filled in"
  const word = /^[^\s,"\]]+/.exec(text.slice(at))?.[0] ?? ""
  return isPlaceholder(word) ? `the placeholder ${word} was not filled in` : undefined
}

function listEntries(source: Source, tree: Node, findings: Findings, nameOf: (type: string) => string): Entry[] {
  const keys = source.attachment === undefined ? networkKeys : { ...networkKeys, name: pluginKeys.name } // Multus adds the name
  checkKeys({ source, findings, also: ["plugins"], isComplete: true, isShared: true }, tree, keys)
  return itemsAt(tree, ["plugins"]).map((node) => entryOf(source, node, nameOf))
}

function besideEntries(
  tree: Node,
  sources: readonly Source[],
  findings: Findings,
  nameOf: (type: string) => string,
): Entry[] {
  const only = nodeAt(tree, ["loadOnlyInlinedPlugins"])
  if (only?.kind === "scalar" && only.value === true) return []
  return sources.flatMap((source) => {
    if (!checkSyntax(source, findings) || source.tree === undefined) return []
    checkDuplicates(source, source.tree, findings)
    return [entryOf(source, source.tree, nameOf)]
  })
}

/** Returns an entry. `nameOf` returns the plugin's name for a type, by the content of the type's file. */
function entryOf(source: Source, node: Node, nameOf: (type: string) => string): Entry {
  const type = textAt(node, ["type"]) ?? ""
  const known = findPlugin(nameOf(type))
  const ipam = findPlugin(nameOf(textAt(node, ["ipam", "type"]) ?? ""))
  return {
    source,
    node,
    type: known?.name ?? type,
    known,
    ipam: ipam?.kind === "ipam" && isRunBy(known) ? ipam : undefined,
  }
}

/**
 * Reports whether the plugin runs the IPAM plugin with the configuration as it is written. Chained plugins run none,
 * and flannel writes another configuration. A plugin of another suite may add keys first, as calico does with
 * `usePodCidr`.
 */
function isRunBy(known: Known | undefined): boolean {
  return known !== undefined && known.kind !== "chained" && known.delegates === undefined
}

function checkEntry({ source, node, known, ipam }: Entry, findings: Findings, isList: boolean): void {
  for (const path of [["type"], ["ipam", "type"], ["delegate", "type"]])
    checkPluginName(source, nodeAt(node, path), findings)
  if (known?.kind === "ipam") return // the rule ipam-in-chain reports it
  const fields = mergeFields(known?.fields ?? pluginKeys, ipam?.fields ?? {})
  const also = [...reservedKeys, ...(isList ? [] : Object.keys(networkKeys))]
  const { ipam: ownIpam, ...rest } = fields
  const isForeign = ipam === undefined && nodeAt(node, ["ipam", "type"]) !== undefined // its keys are unknown
  const table = isForeign || ownIpam === undefined ? { ...rest, ipam: anything } : fields
  checkKeys({ source, findings, also, isComplete: known !== undefined }, node, table)
  if (known?.delegates !== undefined) checkDelegate(source, nodeAt(node, ["delegate"]), known.delegates[0], findings)
}

/** Reports a plugin name with a path, which runtimes reject. */
function checkPluginName(source: Source, node: Node | undefined, findings: Findings): void {
  if (node?.kind !== "scalar" || typeof node.value !== "string" || node.value === "") return
  try {
    validatePluginName(node.value)
  } catch (error) {
    if (!isCniError(error)) throw error
    findings.add(source, node, "refused", error.message, {
      hint: "write the name of a plugin's file, without a directory",
    })
  }
}

/** Checks the keys of flannel's delegate, the plugin that creates the interface. */
function checkDelegate(source: Source, node: Node | undefined, usual: string, findings: Findings): void {
  const delegate = findPlugin(textAt(node, ["type"]) ?? usual)
  if (node === undefined || delegate === undefined) return
  checkKeys({ source, findings, isComplete: true }, node, { ...delegate.fields, type: { kind: "text" } }, "delegate")
}

/** Reports errors of the plugins' own parsers, as in an ADD: contradicting keys, and invalid addresses. */
function checkByParser(
  { source, node, known, ipam }: Entry,
  { name, cniVersion }: { name: string; cniVersion: string },
  findings: Findings,
) {
  if (known === undefined || known.kind === "ipam" || findings.hasErrorIn(source, node) || hasPlaceholder(node)) return
  const raw = { ...(plainValue(node) as JsonObject), name: isName(name) ? name : "net", cniVersion }
  for (const each of [known, ipam]) {
    if (each === undefined || each.name === "host-local") continue // the rules about ranges report its errors
    try {
      each.config(parseNetworkConfig(raw), { verb: "ADD", args: "", raw })
    } catch (error) {
      if (!isCniError(error)) throw error
      const details = error.details === undefined || error.details === "" ? {} : { hint: error.details }
      findings.add(source, placeOf(node, error.message), "refused", `${each.name}: ${error.message}`, details)
    }
  }
}

/** Reports whether a network's name is valid. Another rule reports the reason once for all plugins. */
export function isName(name: string): boolean {
  try {
    validateNetworkName(name)
    return true
  } catch {
    return false
  }
}

/** Returns the value of the first key that a message names, or else the value of "type". */
function placeOf(node: Node, message: string): Node | undefined {
  const named = [...message.matchAll(/"([A-Za-z][\w.[\]]*)"|\b(vlanTrunk|gateways|ipam)\b/g)].map(
    (match) => match[1] ?? match[2] ?? "",
  )
  const found = named.map((name) => nodeAt(node, pathOf(name))).find((each) => each !== undefined)
  return found ?? nodeAt(node, ["ipam"]) ?? nodeAt(node, ["type"]) ?? node
}

/** Splits a path such as "ipam.ranges[0]" into keys and indexes. */
export function pathOf(text: string): (string | number)[] {
  return [...text.matchAll(/([^.[\]]+)|\[(\d+)\]/g)].map((match) => match[1] ?? Number(match[2]))
}

/** Reports errors of the runtime's library that no other rule reports. Returns the version that the library chooses. */
function checkByLibrary(
  source: Source,
  findings: Findings,
  isList: boolean,
  name: string | undefined,
): string | undefined {
  const { tree } = source
  if (tree?.kind !== "object" || isPlaceholder(textAt(tree, ["name"]) ?? "")) return undefined
  const text = name === undefined ? source.text : JSON.stringify({ ...(plainValue(tree) as JsonObject), name })
  const bytes = encodeUtf8(text)
  try {
    return (isList ? parseNetworkList(bytes) : parseSinglePlugin(bytes)).cniVersion
  } catch (error) {
    if (!isCniError(error)) throw error
    if (findings.hasError(source)) return undefined
    const key = /'([\w.]+)'/.exec(error.message)?.[1] ?? (/name/.test(error.message) ? "name" : "plugins")
    const place = nodeAt(source.tree, pathOf(key))
    findings.add(source, place, "refused", error.message, error.details ? { hint: error.details } : {})
    return undefined
  }
}
