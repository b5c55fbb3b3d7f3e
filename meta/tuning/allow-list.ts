import { decodeUtf8 } from "../../pkg/engine/mod.ts"
import { findFile, isErrno } from "../../pkg/libc/mod.ts"
import { CniError, Code } from "../../pkg/types/mod.ts"
import type { SysctlEntry } from "./sysctls.ts"

/** The administrator's word on which sysctls a configuration may set; every sysctl when there is no such file. */
const ALLOW_LIST = "/etc/cni/tuning/allowlist.conf"

/**
 * Refuses sysctls that the allow list does not have: those whose key, as it was written, none of its lines matches. Each
 * line is a regular expression in RE2's syntax that may match anywhere in the key; a file without lines allows nothing.
 * Throws code 7 for a sysctl that is not allowed, code 999 for a file that cannot be used.
 */
export function refuseForbidden(sysctls: readonly SysctlEntry[], path = ALLOW_LIST): void {
  const text = sysctls.length > 0 ? readIfThere(path) : undefined
  if (text === undefined) return
  const lines = text.split("\n").map((line) => line.trim())
  const patterns = lines.filter((line) => line !== "").map((line) => ({ line, pattern: compile(line, path) }))
  for (const { key } of sysctls) {
    if (patterns.some(({ pattern }) => pattern.test(key))) continue
    const allowed = patterns.map(({ line }) => line).join(" ")
    throw new CniError(
      Code.InvalidNetworkConfig,
      `Sysctl ${key} is not allowed. Only the following sysctls are allowed: [${allowed}]`,
      { details: `the list is "${path}"` },
    )
  }
}

function readIfThere(path: string): string | undefined {
  try {
    const bytes = findFile(path)
    return bytes && decodeUtf8(bytes)
  } catch (cause) {
    if (isErrno(cause, "ENOTDIR")) return undefined
    throw new CniError(Code.Internal, `Cannot read the allow list "${path}"`, { cause })
  }
}

function compile(line: string, path: string): RegExp {
  try {
    return compilePattern(line)
  } catch (cause) {
    throw new CniError(Code.Internal, `Cannot use the allow list "${path}": "${line}" is no regular expression`, {
      cause,
    })
  }
}

/** The POSIX classes of RE2, all of them in ASCII, as ranges of a JavaScript class. */
const posix: Readonly<Record<string, string>> = {
  alnum: "0-9A-Za-z",
  alpha: "A-Za-z",
  ascii: "\\x00-\\x7f",
  blank: "\\t ",
  cntrl: "\\x00-\\x1f\\x7f",
  digit: "0-9",
  graph: "!-~",
  lower: "a-z",
  print: " -~",
  punct: "!-\\/:-@\\[-`\\{-~",
  space: "\\t\\n\\v\\f\\r ",
  upper: "A-Z",
  word: "\\w",
  xdigit: "0-9A-Fa-f",
}

/** One piece of a pattern: a quotation, an escape, the beginning of a class or group, a count, or one character. */
const piece =
  /\\Q(?<quoted>.*?)(?:\\E|$)|\\(?<escaped>x\{[0-9A-Fa-f]+\}|x[0-9A-Fa-f]{2}|[pP]\{\w+\}|[pP][A-Z]|.)|\[:(?<posix>\^?\w+):\]|(?<classStart>\[\^?)(?<bracket>\]?)|(?<group>\(\?(?:P?<(?=[A-Za-z_])|[ims-]*:))|(?<special>\(\?)|(?<count>\{\d+(?:,\d*)?\})|(?<plain>.)/gsu

/**
 * A regular expression in the syntax of RE2, which Go's programs use, as one of JavaScript. What the two spell
 * differently is translated, so that an existing file means here what it meant there; what only JavaScript knows, such as
 * looking ahead, is refused. Throws `SyntaxError`.
 */
export function compilePattern(pattern: string): RegExp {
  const [flagGroup = "", flags = ""] = /^\(\?([ims]+)\)/.exec(pattern) ?? []
  let translated = ""
  let isInClass = false
  for (const { groups = {} } of pattern.slice(flagGroup.length).matchAll(piece)) {
    const { quoted, escaped, posix: name, classStart, bracket, group, special, count, plain } = groups
    if (quoted !== undefined) for (const char of quoted) translated += literal(char)
    else if (escaped !== undefined) translated += translateEscape(escaped)
    else if (name !== undefined) translated += isInClass ? posixClass(name) : refuse(`[:${name}:] outside of a class`)
    else if (classStart !== undefined && isInClass) translated += `\\[${classStart.slice(1)}${bracket ? "]" : ""}`
    else if (classStart !== undefined) translated += classStart + (bracket ? "\\]" : "")
    else if (group !== undefined) translated += group.replace("P<", "<")
    else if (special !== undefined) translated += isInClass ? special : refuse("(? without a meaning in RE2")
    else if (count !== undefined) translated += count
    else if (plain !== undefined) translated += !isInClass && "{}]".includes(plain) ? `\\${plain}` : plain
    if (classStart !== undefined) isInClass = !(isInClass && bracket)
    else if (plain === "]") isInClass = false
  }
  return new RegExp(translated, `u${flags}`)
}

function translateEscape(escaped: string): string {
  if (escaped === "A") return "^"
  if (escaped === "z") return "$"
  if (escaped === "a") return "\\x07"
  if (escaped.startsWith("x{")) return `\\u${escaped.slice(1)}`
  if (/^[pP][A-Z]$/.test(escaped)) return `\\${escaped[0]}{${escaped[1]}}`
  if (/^(?:[bBdDsSwWfnrtv]|x..|[pP]\{.*)$/.test(escaped)) return `\\${escaped}`
  return /^[0-9A-Za-z]/.test(escaped) ? refuse(`\\${escaped}`) : literal(escaped)
}

function posixClass(name: string): string {
  return posix[name] ?? refuse(`[:${name}:]`)
}

/** A character that stands for itself. */
function literal(char: string): string {
  return `\\u{${char.codePointAt(0)?.toString(16)}}`
}

function refuse(what: string): never {
  throw new SyntaxError(`cannot use ${what}`)
}
