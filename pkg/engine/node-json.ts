import type { ExactJson } from "./engine.ts"

/** A number beyond the precision of a double, on Node 20, which lacks `JSON.rawJSON`. */
class RawDigits {
  readonly rawJSON: string

  constructor(text: string) {
    this.rawJSON = text
    Object.freeze(this)
  }
}

/** The prefix of a text that stands for a number with these digits: private-use characters of Unicode. */
const mark = "\ue0c1\ue0c2"
const marked = new RegExp(`"${mark}([^"]*)"`, "g")
const numberOrText = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g

/** `JSON.parse` that passes the text of each number to the reviver, ECMAScript 2026 "JSON.parse source text access". */
function parse(text: string, reviver?: Parameters<ExactJson["parse"]>[1]): unknown {
  const value: unknown = JSON.parse(text) // throws the same error as the language's own
  if (!reviver) return value
  const withTexts = text.replace(numberOrText, (token) => (token.startsWith('"') ? token : `"${mark}${token}"`))
  return JSON.parse(withTexts, (key, given: unknown) => {
    if (typeof given !== "string" || !given.startsWith(mark)) return reviver(key, given, {})
    const source = given.slice(mark.length)
    return reviver(key, Number(source), { source })
  })
}

/** `JSON.stringify` that writes a `RawDigits` as its digits. */
function stringify(value: unknown, _replacer?: null, indent?: number): string {
  const withMarks = JSON.stringify(
    value,
    (_key, given: unknown) => (given instanceof RawDigits ? `${mark}${given.rawJSON}` : given),
    indent,
  )
  return withMarks?.replace(marked, "$1")
}

/** The language's own JSON if it keeps the digits of numbers, otherwise a replacement. */
export const json: ExactJson =
  "rawJSON" in JSON
    ? (JSON as unknown as ExactJson)
    : {
        parse,
        stringify,
        rawJSON: (text) => new RawDigits(text),
        isRawJSON: (value): value is RawDigits => value instanceof RawDigits,
      }
