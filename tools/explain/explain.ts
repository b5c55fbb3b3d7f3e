import { isJsonObject, member } from "../../pkg/types/mod.ts"
import { pluginNames } from "../../suite/plugins.ts"
import { Candidates } from "./candidates.ts"
import { type KnownMessage, knownMessages, unknownMessageOf } from "./known.ts"

export interface LoggedError {
  /** The innermost message, without the text that runtimes add around it. */
  readonly message: string
  /** The plugin that wrote the message, and its verb. Undefined if the text does not name them. */
  readonly plugin: string | undefined
  readonly verb: string | undefined
  /** The code in an error object. */
  readonly code: number | undefined
}

export interface Explanation {
  readonly error: LoggedError
  /** The matching entries, best first. A second entry explains another part of the message. */
  readonly known: readonly KnownMessage[]
  /** The number of log lines with the error. */
  readonly count: number
}

/**
 * Explains one error: a message, a log line, or an error object in JSON. If no entry matches, `known` has an entry for
 * the plugin that the text names, or is empty if the text names none.
 */
export function explain(text: string, messages = knownMessages(), unknownOf = unknownMessageOf): Explanation {
  const error = readError(text)
  const known = matches(error, messages, hasSign(text, error))
  const isFrame = known.every(({ kind }) => kind === "frame")
  return { error, known: isFrame && error.plugin !== undefined ? [unknownOf(error.plugin)] : known, count: 1 }
}

/** Explains a log's errors: each kind of message once, in order. A log may be one error object over several lines. */
export function explainLog(text: string): Explanation[] {
  const messages = knownMessages()
  const whole = objectOf(text)
  if (whole !== undefined) return [explain(text, messages)].filter(({ known }) => known.length > 0)
  const found = new Map<string, Explanation>()
  const candidates = new Candidates(messages)
  const unknown = new Map<string, KnownMessage>()
  const unknownOf = (plugin: string) => unknown.getOrInsertComputed(plugin, unknownMessageOf)
  for (const line of text.split("\n")) {
    const possible = candidates.in(line)
    if (possible.length === 0 && !line.includes("plugin type=")) continue
    const explanation = explain(line, possible, unknownOf)
    const [best] = explanation.known
    if (best === undefined) continue
    const key = `${best.pattern} ${explanation.error.plugin}`
    const before = found.get(key)
    found.set(key, before === undefined ? explanation : { ...before, count: before.count + 1 })
  }
  return [...found.values()]
}

/** The text that the reference library and Multus add before a plugin's message. */
const frames = /plugin type="([^"]+)"(?: name="[^"]*")? failed \((\w+)\): |delegate (\w+) - "([^"]+)": /gi

export function readError(text: string): LoggedError {
  const plain = withoutEscapes(text)
  const candidates = plain === text ? [text, braced(text)] : [text, braced(text), braced(plain)]
  const object = candidates.map(objectOf).find((found) => found !== undefined)
  const code = object && member(object, "code")
  const line = object ? [member(object, "msg"), member(object, "details")].filter(Boolean).join("; ") : plain.trim()
  const wrapped = [...line.matchAll(frames)].at(-1)
  const inner = wrapped === undefined ? line : line.slice(wrapped.index + wrapped[0].length)
  return {
    message: withoutLogging(inner),
    plugin: wrapped?.[1] ?? wrapped?.[4],
    verb: wrapped?.[2] ?? wrapped?.[3],
    code: typeof code === "number" ? code : undefined,
  }
}

function objectOf(text: string) {
  if (!/^\s*\{/.test(text)) return undefined // true for nearly every line, and an exception is slow
  try {
    const value = JSON.parse(text)
    return isJsonObject(value) && member(value, "msg") !== undefined ? value : undefined
  } catch {
    return undefined
  }
}

/** Removes the escapes of log formats, some of which quote a message twice. */
function withoutEscapes(text: string): string {
  let unescaped = text
  while (unescaped.includes('\\"')) unescaped = unescaped.replaceAll('\\\\"', '\\"').replaceAll('\\"', '"')
  return unescaped.replaceAll("\\n", " ")
}

/** Returns the text from the first opening to the last closing brace. */
function braced(text: string): string {
  const start = text.indexOf("{")
  return start === -1 ? "" : text.slice(start, text.lastIndexOf("}") + 1)
}

/** Removes the fields at the end of a log line: `"" pod="default/web-0"`. */
function withoutLogging(message: string): string {
  const words = message.replace(/\s+(pod|podUID|logger|namespace|sandboxID)=\S*/g, "").replace(/""+$/, "")
  const isUnbalanced = (words.split('"').length - 1) % 2 === 1
  return isUnbalanced ? words.replace(/"$/, "") : words
}

/** Words in lines about container networks. */
const sign = /\bcni\b|netplugin|plugin type=|\bnetns\b|sandbox|\bnetwork for\b|multus|\bipam\b/i

/** Words in lines about container images. If such a line names no plugin, only patterns with these words match. */
const image = /\b(pull|pulling|image|registry)\b/i

/** Reports whether a text is about a container network: it has certain words, an error object, or a plugin's name. */
function hasSign(text: string, { plugin, code }: LoggedError): boolean {
  return plugin !== undefined || code !== undefined || sign.test(text)
}

/** Plugins that pass on the messages of other plugins. */
const passesOn = /^multus/

function isForeign({ plugin }: LoggedError): boolean {
  return plugin !== undefined && !pluginNames.includes(plugin) && !passesOn.test(plugin)
}

/**
 * The least weight of a pattern for other programs. Shorter patterns, such as "Cannot find …", only match in an error
 * object or a message of a plugin of this suite.
 */
const LEAST_SURE_WEIGHT = 13

/** Returns the entries that match a message. Frames and common words are used only if no other entry matches. */
function matches(error: LoggedError, messages: readonly KnownMessage[], isSure: boolean): KnownMessage[] {
  const { message, code } = error
  const isOfImage = error.plugin === undefined && image.test(message)
  const found = messages
    .filter(({ matcher, pattern }) => matcher.test(message) && (!isOfImage || image.test(pattern)))
    .map((known) => ({ known, weight: weightOf(known, code) }))
    .sort((a, b) => b.weight - a.weight)
    .map(({ known }) => known)
  const special = found.filter(({ kind }) => kind === undefined)
  const common = found.filter(({ kind, matcher, weight }) => {
    if (kind !== "common" || isForeign(error)) return false
    if (weight < LEAST_SURE_WEIGHT) return code !== undefined || error.plugin !== undefined
    return isSure || matcher.exec(message)?.index === 0
  })
  const ranked = [special, common, found.filter(({ kind }) => kind === "frame")].find((each) => each.length > 0) ?? []
  const [best] = ranked
  if (best === undefined) return []
  const others = ranked.filter((one) => one.what !== best.what && isElsewhere(one, best, message))
  return [best, ...others.slice(0, 1)]
}

/**
 * Returns the rank of an entry. Longer patterns have a higher rank, and so have entries with a remedy. An entry that
 * refers to another code ("the causes are those of ADD; see codes 5, 7 and 999") ranks below the other code's entry.
 */
function weightOf({ weight, what, remedy, code }: KnownMessage, errorCode: number | undefined): number {
  const reference = what.startsWith("the causes are those of ") ? -1 : 0
  return weight + reference + (remedy === undefined ? 0 : 45) + (errorCode !== undefined && code === errorCode ? 5 : 0)
}

/** Reports whether two patterns match different parts of a message. */
function isElsewhere(one: KnownMessage, other: KnownMessage, message: string): boolean {
  const [a, b] = [one, other].map(({ matcher }) => matcher.exec(message))
  if (!a || !b) return false
  return a.index + a[0].length <= b.index || b.index + b[0].length <= a.index
}
