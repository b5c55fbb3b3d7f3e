import { itemsAt, memberOf, type Node, nodeAt, parseTree, textAt } from "./document.ts"

/** A NetworkAttachmentDefinition of Multus, with its network configuration. */
export interface Attachment {
  /** `metadata.name`. Multus uses it for a configuration without a name. */
  readonly name: string
  /** The text of the whole file. */
  readonly whole: string
  /** The text in `spec.config`, unquoted. Undefined if the object has none. */
  readonly config: string | undefined
  /** The file offset of each UTF-16 code unit of `config`. If `config` is undefined, the only offset of a finding. */
  readonly offsets: readonly number[]
  /** Whether `spec.config` is an object or a list, which the API server rejects. */
  readonly isObject: boolean
}

/** Reports whether a file's name is that of a YAML file, which runtimes ignore. */
export function isManifest(name: string): boolean {
  return /\.ya?ml$/i.test(name)
}

const KIND = "NetworkAttachmentDefinition"

/** An unquoted text, with the offset in the file of each code unit. */
interface Unquoted {
  readonly text: string
  readonly offsets: readonly number[]
}

/** Returns the NetworkAttachmentDefinitions in a file, which is JSON or YAML. Returns undefined if it has none. */
export function attachmentsIn(text: string): Attachment[] | undefined {
  const found = /^\s*\{/.test(text) ? inJson(text) : inYaml(text)
  return found.length === 0 ? undefined : found
}

function inJson(text: string): Attachment[] {
  if (!text.includes(KIND)) return []
  try {
    JSON.parse(text)
  } catch {
    return [] // the rule json-syntax reports it
  }
  const tree = parseTree(text)
  return [tree, ...itemsAt(tree, ["items"])]
    .filter((node) => textAt(node, ["kind"]) === KIND)
    .map((node) => ofObject(text, node))
}

function ofObject(whole: string, node: Node): Attachment {
  const name = textAt(node, ["metadata", "name"]) ?? ""
  const config = nodeAt(node, ["spec", "config"])
  const isText = config?.kind === "scalar" && typeof config.value === "string" && config.value !== ""
  if (!isText) {
    const place = config ?? memberOf(node, "kind")?.keyNode ?? node
    return { name, whole, config: undefined, offsets: [place.start], isObject: config?.kind === "object" }
  }
  const { text, offsets } = doubleQuoted(whole, config.start + 1)
  return { name, whole, config: text, offsets, isObject: false }
}

/**
 * Reads the subset of YAML that these manifests use: documents, lists of objects, block mappings, and `spec.config` as
 * a block or quoted text. This avoids the dependency on a YAML library.
 */
function inYaml(whole: string): Attachment[] {
  return objectsIn(whole).flatMap((object): Attachment[] => {
    const { text, start, indent } = object
    const kind = new RegExp(`^ {${indent}}kind:\\s*["']?${KIND}["']?\\s*(#.*)?$`, "m").exec(text)
    if (kind === null) return []
    const none = { name: nameOf(object), whole, config: undefined, isObject: false }
    const config = placeOfValue(object, "spec", "config")
    const isEmpty = config === undefined || /^(?:[ \t]*(?:#.*)?$|""|'')/m.exec(text.slice(config.at))?.index === 0
    if (isEmpty) return [{ ...none, offsets: [start + kind.index + indent] }]
    const unquoted = unquote(whole, start + config.at, config.indent, start + text.length)
    if (unquoted === undefined) return [{ ...none, offsets: [start + config.at], isObject: true }]
    return [{ ...none, config: unquoted.text, offsets: unquoted.offsets }]
  })
}

/** An object in a file, with the indentation of its keys. */
interface YamlObject {
  readonly text: string
  readonly start: number
  readonly indent: number
}

/** Splits a file into documents, and List documents into items. In an item's `text`, a space replaces the dash. */
function objectsIn(whole: string): YamlObject[] {
  let at = 0
  return whole.split(/^(?=---)/m).flatMap((document): YamlObject[] => {
    const start = at
    at += document.length
    const dash = /^kind:\s*\w*List\s*$/m.test(document) ? /^( *)- \w+:/m.exec(document)?.[1] : undefined
    if (dash === undefined) return [{ text: document, start, indent: 0 }]
    let item = start
    return document.split(new RegExp(`^(?=${dash}- )`, "m")).map((text) => {
      const from = item
      item += text.length
      return { text: text.replace(`${dash}- `, `${dash}  `), start: from, indent: dash.length + 2 }
    })
  })
}

/** Returns `metadata.name`, from a block or from a mapping between braces. */
function nameOf(object: YamlObject): string {
  const place = placeOfValue(object, "metadata", "name")
  const inBraces = /^ *metadata:\s*\{(?:.*,)?\s*name:\s*/m.exec(object.text)
  const at = place?.at ?? (inBraces ? inBraces.index + inBraces[0].length : undefined)
  return at === undefined ? "" : (/^["']?([^"',}\s]*)/.exec(object.text.slice(at))?.[1] ?? "")
}

/** Returns the offset of a key's value in a block of an object, and the key's indentation. */
function placeOfValue(object: YamlObject, block: string, key: string): { at: number; indent: number } | undefined {
  const margin = " ".repeat(object.indent)
  const head = new RegExp(`^${margin}${block}:[ \\t]*(?:#.*)?\\r?\\n`, "m").exec(object.text)
  if (head === null) return undefined
  const from = head.index + head[0].length
  const body = object.text.slice(from)
  const end = new RegExp(`^ {0,${object.indent}}[^\\s#]`, "m").exec(body)?.index ?? body.length
  const indent = /^([ ]+)\S/m.exec(body)?.[1] ?? ""
  const found = new RegExp(`^${indent}["']?${key}["']?:[ \\t]*`, "m").exec(body.slice(0, end))
  return found === null ? undefined : { at: from + found.index + found[0].length, indent: indent.length }
}

/** Returns the text of a scalar at an offset. Returns undefined for a mapping or a list in flow style. */
function unquote(whole: string, at: number, indent: number, end: number): Unquoted | undefined {
  const first = whole[at]
  if (first === "|" || first === ">") return block(whole, at, indent, end)
  if (first === '"') return doubleQuoted(whole, at + 1)
  if (first === "'") return singleQuoted(whole, at + 1)
  if ((first === "{" && whole[at + 1] !== "{") || first === "[") return undefined
  const line = /^.*/.exec(whole.slice(at))?.[0] ?? ""
  return { text: line, offsets: [...Array(line.length).keys()].map((index) => at + index) }
}

/**
 * Returns the text of a block scalar. The block ends before the first line that is not indented more than its key. The
 * text keeps its indentation, because JSON ignores spaces.
 */
function block(whole: string, at: number, indent: number, end: number): Unquoted {
  const start = whole.indexOf("\n", at) + 1
  const lines = whole.slice(start, end).split("\n")
  const after = lines.findIndex((line) => line.trim() !== "" && (/^ */.exec(line)?.[0].length ?? 0) <= indent)
  const text = lines.slice(0, after < 0 ? undefined : after).join("\n")
  return { text, offsets: [...Array(text.length).keys()].map((index) => start + index) }
}

function singleQuoted(whole: string, from: number): Unquoted {
  return collect(whole, from, (at) => {
    if (whole[at] !== "'") return { length: 1, value: whole[at] ?? "" }
    return whole[at + 1] === "'" ? { length: 2, value: "'" } : undefined
  })
}

const escapes: Readonly<Record<string, string>> = { n: "\n", t: "\t", r: "\r", b: "\b", f: "\f", 0: "\0", e: "\x1b" }

function doubleQuoted(whole: string, from: number): Unquoted {
  return collect(whole, from, (at) => {
    if (whole[at] === '"') return undefined
    if (whole[at] !== "\\") return { length: 1, value: whole[at] ?? "" }
    const long = /^\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2}))/.exec(whole.slice(at, at + 6))
    if (long)
      return { length: long[0].length, value: String.fromCharCode(Number.parseInt(long[1] ?? long[2] ?? "", 16)) }
    const next = whole[at + 1] ?? ""
    if (next === "\n") return { length: /^\\\n[ \t]*/.exec(whole.slice(at))?.[0].length ?? 2, value: "" }
    return { length: 2, value: escapes[next] ?? next }
  })
}

function collect(
  whole: string,
  from: number,
  read: (at: number) => { length: number; value: string } | undefined,
): Unquoted {
  const offsets: number[] = []
  let text = ""
  for (let at = from; at < whole.length; ) {
    const piece = read(at)
    if (piece === undefined) break
    if (piece.value !== "") offsets.push(at)
    text += piece.value
    at += piece.length
  }
  return { text, offsets }
}
