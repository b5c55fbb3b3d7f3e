import { isJsonObject, member } from "../../pkg/types/mod.ts"
import { Candidates } from "./candidates.ts"
import { type KnownMessage, knownMessages } from "./known.ts"

/** An error that was found in a text. */
export interface Said {
  /** The innermost words, without what runtimes put around them. */
  readonly message: string
  /** The plugin whose words they are, and its verb, where the text says it. */
  readonly plugin: string | undefined
  readonly verb: string | undefined
  /** The code of an error object. */
  readonly code: number | undefined
}

/** The known entry of an error. */
export interface Explanation {
  readonly said: Said
  /** The best fit first; more than one where the message has several parts that are known. */
  readonly known: readonly KnownMessage[]
  /** In how many lines of a log it was. */
  readonly count: number
}

/** Explains one error: a message, a line of a log, or an error object in JSON. No `known` where nothing is like it. */
export function explain(text: string, messages = knownMessages()): Explanation {
  const said = readError(text)
  return { said, known: matches(said, messages), count: 1 }
}

/** Explains a log, each kind of message once, in the order in which they come; or one error object over several lines. */
export function explainLog(text: string): Explanation[] {
  const messages = knownMessages()
  const whole = objectOf(text)
  if (whole !== undefined) return [explain(text, messages)].filter(({ known }) => known.length > 0)
  const found = new Map<string, Explanation>()
  const candidates = new Candidates(messages)
  for (const line of text.split("\n")) {
    const possible = candidates.in(line)
    if (possible.length === 0) continue
    const explanation = explain(line, possible)
    const [best] = explanation.known
    if (best === undefined) continue
    const key = `${best.pattern} ${explanation.said.plugin}`
    const before = found.get(key)
    found.set(key, before === undefined ? explanation : { ...before, count: before.count + 1 })
  }
  return [...found.values()]
}

/** Takes an error out of what is around it. */
export function readError(text: string): Said {
  const plain = withoutEscapes(text)
  const candidates = plain === text ? [text, braced(text)] : [text, braced(text), braced(plain)]
  const object = candidates.map(objectOf).find((found) => found !== undefined)
  const code = object && member(object, "code")
  const line = object ? [member(object, "msg"), member(object, "details")].filter(Boolean).join("; ") : plain.trim()
  const wrapped = [...line.matchAll(/plugin type="([^"]+)"(?: name="[^"]*")? failed \((\w+)\): /g)].at(-1)
  const inner = wrapped === undefined ? line : line.slice(wrapped.index + wrapped[0].length)
  return {
    message: withoutLogging(inner),
    plugin: wrapped?.[1],
    verb: wrapped?.[2],
    code: typeof code === "number" ? code : undefined,
  }
}

function objectOf(text: string) {
  if (!/^\s*\{/.test(text)) return undefined // as nearly every line: an exception would be dear
  try {
    const value = JSON.parse(text)
    return isJsonObject(value) && member(value, "msg") !== undefined ? value : undefined
  } catch {
    return undefined
  }
}

/** Log formats put messages between quotes, and those of messages behind backslashes, more than once. */
function withoutEscapes(text: string): string {
  let unescaped = text
  while (unescaped.includes('\\"')) unescaped = unescaped.replaceAll('\\\\"', '\\"').replaceAll('\\"', '"')
  return unescaped.replaceAll("\\n", " ")
}

/** The text from the first to the last brace. */
function braced(text: string): string {
  const start = text.indexOf("{")
  return start === -1 ? "" : text.slice(start, text.lastIndexOf("}") + 1)
}

/** Without the end of a log line: `"" pod="default/web-0"`. */
function withoutLogging(message: string): string {
  const words = message.replace(/\s+(pod|podUID|logger|namespace|sandboxID)=\S*/g, "").replace(/""+$/, "")
  const isUnbalanced = (words.split('"').length - 1) % 2 === 1
  return isUnbalanced ? words.replace(/"$/, "") : words
}

/** All known entries of a text. A runtime's frame around a plugin's message is left out where the message itself is known. */
function matches({ message, code }: Said, messages: readonly KnownMessage[]): KnownMessage[] {
  const found = messages
    .filter(({ matcher }) => matcher.test(message))
    .map((known) => ({ known, weight: weightOf(known, code) }))
    .sort((a, b) => b.weight - a.weight)
    .map(({ known }) => known)
  const [best] = found
  if (best === undefined) return []
  const others = found.filter((one) => one.what !== best.what && isElsewhere(one, best, message))
  return [best, ...others.slice(0, 1)]
}

/**
 * The longer the surer; rows that say what to do, and where to look, say more than those that do not, and one that refers to another
 * code ("as with ADD: codes 5, 7 and 999") says less than that code's own.
 */
function weightOf({ weight, what, remedy, code }: KnownMessage, said: number | undefined): number {
  const reference = what.startsWith("as with ") ? -1 : 0
  return weight + reference + (remedy === undefined ? 0 : 45) + (said !== undefined && code === said ? 5 : 0)
}

/** Whether two patterns are about different parts of a message. */
function isElsewhere(one: KnownMessage, other: KnownMessage, message: string): boolean {
  const [a, b] = [one, other].map(({ matcher }) => matcher.exec(message))
  if (!a || !b) return false
  return a.index + a[0].length <= b.index || b.index + b[0].length <= a.index
}
