import { didYouMean, expectation, type Fields, parseConfig, type Schema } from "../../pkg/config/mod.ts"
import { isCniError, type JsonValue } from "../../pkg/types/mod.ts"
import { anything, reservedKeys } from "../configuration/mod.ts"
import { memberOf, type Node, type ObjectNode } from "./document.ts"
import type { Findings, Source } from "./findings.ts"
import { isPlaceholder } from "./placeholder.ts"

/** Keys that are not for plugins: comments, the schema for an editor, and keys that the rule reserved-key reports. */
const notForPlugins = /^(\$|_|\/\/|#|x-|cni\.dev\/)/i

/** Objects with keys of other programs, in which only misspelled keys are reported. */
const shared = /^(args|args\.cni|capabilities|runtimeConfig)$/

/** The object to check, and how strict the check is. */
export interface Walk {
  readonly source: Source
  readonly findings: Findings
  /** Valid keys that the table does not contain. */
  readonly also?: readonly string[]
  /** Whether the table is complete, so that unknown keys are reported, unlike for plugins of other suites. */
  readonly isComplete: boolean
  /** Whether the object has keys of other programs, so that only misspelled keys are reported. */
  readonly isShared?: boolean
}

/** Compares an object with its table of keys. Reports unknown keys, and values that the plugin's parser rejects. */
export function checkKeys(walk: Walk, node: Node, fields: Fields, path = ""): void {
  if (node.kind !== "object") return
  checkNames(walk, node, fields, path)
  for (const [key, schema] of Object.entries(fields)) {
    const member = memberOf(node, key)
    const at = path === "" ? key : `${path}.${key}`
    const isAbsent = member === undefined || (member.value.kind === "scalar" && member.value.value === null)
    if (!isAbsent) checkValue(walk, member.value, schema, at)
    else if (schema.required) {
      const message = `"${at}" is missing: expected ${expectation(schema)}`
      walk.findings.add(walk.source, startOf(node), "missing-key", message)
    }
  }
}

/** Returns the position of an object's opening brace, where missing keys are reported. */
export function startOf(node: ObjectNode) {
  return { start: node.start, end: node.start + 1 }
}

function checkNames(
  { source, findings, also = [], isComplete, isShared = false }: Walk,
  node: ObjectNode,
  fields: Fields,
  path: string,
) {
  const known = [...Object.keys(fields), ...(path === "" ? also : [])]
  for (const { key, keyNode } of node.members) {
    if (known.includes(key) || notForPlugins.test(key)) continue
    const at = path === "" ? key : `${path}.${key}`
    const spelling = known.find((name) => name.toLowerCase() === key.toLowerCase())
    if (spelling !== undefined) {
      const message = `"${at}" is read as "${spelling}": plugins ignore the case of keys, other programs do not`
      findings.add(source, keyNode, "key-case", message)
      continue
    }
    const meant = didYouMean(key, known)
    if (!isComplete || ((isShared || shared.test(path)) && meant === undefined)) continue
    const hint =
      meant === undefined
        ? listOf(Object.keys(fields).filter((each) => !reservedKeys.includes(each)))
        : `did you mean "${meant}"?`
    findings.add(
      source,
      keyNode,
      "unknown-key",
      `"${at}" is not a key of ${isShared ? "a network's list" : "this plugin"}: it has no effect`,
      { hint },
    )
  }
}

function listOf(known: readonly string[]): string {
  return `known here: ${known.toSorted().join(", ")}`
}

function checkValue(walk: Walk, node: Node, schema: Schema, path: string): void {
  if (schema === anything) return
  if (schema.kind === "object" && node.kind === "object") {
    checkKeys(walk, node, schema.fields, path)
    return
  }
  if (schema.kind === "list" && node.kind === "list") {
    for (const [index, item] of node.items.entries()) {
      const isHole = schema.of.nullable && item.kind === "scalar" && item.value === null
      if (!isHole) checkValue(walk, item, schema.of, `${path}[${index}]`)
    }
    return
  }
  if (schema.kind === "record" && node.kind === "object") {
    for (const { key, value } of node.members) checkValue(walk, value, schema.of, `${path}.${key}`)
    return
  }
  if (node.kind === "scalar" && typeof node.value === "string" && isPlaceholder(node.value)) {
    walk.findings.add(walk.source, node, "placeholder", `the placeholder "${node.value}" was not filled in`)
    return
  }
  const refusal = refusalOf(schema, plainValue(node), path)
  if (refusal !== undefined) walk.findings.add(walk.source, node, "wrong-value", refusal)
}

/** Returns the error message of the plugin's own parser for a value. */
function refusalOf(schema: Schema, value: JsonValue, path: string): string | undefined {
  if (value === null) return `Cannot use "${path}": expected ${expectation(schema)}, found null`
  // The parser accepts a list in place of an object without keys.
  if (schema.kind === "object") return `Cannot use "${path}": expected an object, found ${JSON.stringify(value)}`
  try {
    parseConfig<Fields>({ key: schema }, { key: value })
    return undefined
  } catch (error) {
    if (!isCniError(error)) throw error
    return error.message.replace(/^Cannot use "key/, `Cannot use "${path}`)
  }
}

export function plainValue(node: Node): JsonValue {
  if (node.kind === "scalar") return node.value
  if (node.kind === "list") return node.items.map(plainValue)
  return Object.fromEntries(node.members.map(({ key, value }) => [key, plainValue(value)]))
}

/** Reports keys that occur twice in an object. Plugins read the last one, but other programs may read the first. */
export function checkDuplicates(source: Source, node: Node, findings: Findings): void {
  if (node.kind === "list") for (const item of node.items) checkDuplicates(source, item, findings)
  if (node.kind !== "object") return
  const seen = new Map<string, string>()
  for (const { key, keyNode, value } of node.members) {
    const before = seen.get(key.toLowerCase())
    if (before === key)
      findings.add(source, keyNode, "duplicate-key", `"${key}" occurs twice: the last one takes effect`)
    else if (before !== undefined)
      findings.add(source, keyNode, "duplicate-key", `"${before}" and "${key}" are the same key to plugins`)
    seen.set(key.toLowerCase(), key)
    checkDuplicates(source, value, findings)
  }
}
