import { decodeUtf8 } from "../../pkg/engine/mod.ts"
import { runByName } from "./programs.ts"

/** Runs a program and returns its output, or undefined if it is not installed or fails. */
export function tryOutput(command: readonly string[], stdin = ""): string | undefined {
  const [name = "", ...args] = command
  const ended = runByName(name, args, stdin)
  return ended?.exitCode === 0 ? decodeUtf8(ended.stdout) : undefined
}

/** The nftables rules of a namespace: each table as `nft` prints it, by a name such as "ip cni_masquerade". */
export type Rules = Readonly<Record<string, string>>

/** Reads all tables of this namespace. Returns undefined if the program `nft` is not installed. */
export function readRules(): Rules | undefined {
  const tables = tryOutput(["nft", "list", "tables"])
  if (tables === undefined) return undefined
  const names = [...tables.matchAll(/^table (\S+) (\S+)$/gm)].map(([, family, name]) => `${family} ${name}`)
  return Object.fromEntries(names.map((name) => [name, tryOutput(["nft", "list", "table", ...name.split(" ")]) ?? ""]))
}

/** Creates tables from the text of `readRules`. `nft` cannot read tables of iptables: `writeIptables` creates those. */
export function writeRules(rules: Rules): void {
  for (const text of Object.values(rules)) if (!/\bxt (target|match)\b/.test(text)) tryOutput(["nft", "-f", "-"], text)
}

const iptablesPrograms = ["iptables", "ip6tables"] as const

/** Returns the output of the iptables-save programs, by program. */
export function readIptables(): Readonly<Record<string, string>> {
  const saved = iptablesPrograms.map((program) => [program, tryOutput([`${program}-save`])])
  return Object.fromEntries(saved.filter(([, text]) => text?.includes("-A ")))
}

export function writeIptables(saved: Readonly<Record<string, string>>): void {
  for (const [program, text] of Object.entries(saved)) tryOutput([`${program}-restore`], text)
}

/** Returns the second rule set's added lines, below their blocks' headings. Each set element has its own line. */
export function addedRules(before: Rules, after: Rules): string {
  return Object.entries(after)
    .map(([table, text]) => addedLines(linesOf(before[table] ?? ""), linesOf(text)))
    .join("")
}

function linesOf(text: string): string[] {
  const spread = text.replace(/^(\s*)elements = \{([^}]*)\}/gm, (_, indent: string, elements: string) => {
    const list = elements.split(",").map((element) => element.replace(/\s+/g, " ").trim())
    return `${indent}elements = {\n${list.map((element) => `${indent}\t${element}`).join("\n")}\n${indent}}`
  })
  return spread.split("\n").filter((line) => line.trim() !== "" && !line.startsWith("#"))
}

function addedLines(before: readonly string[], after: readonly string[]): string {
  const known = new Set(pathsOf(before))
  const paths = pathsOf(after)
  const kept = after.filter((line, at) => {
    const path = paths[at] ?? ""
    if (line.trim() === "}") return isKept(path.slice(0, -2))
    return line.trim().endsWith("{") ? isKept(path) : !known.has(path)
  })
  function isKept(block: string): boolean {
    return (
      paths.some((path) => path.startsWith(`${block}\n`) && !path.endsWith("}") && !known.has(path)) ||
      !known.has(block)
    )
  }
  return kept.map((line) => `${line.replaceAll("\t", "  ")}\n`).join("")
}

/** Returns each line preceded by the headings of its blocks. */
function pathsOf(lines: readonly string[]): string[] {
  const open: string[] = []
  return lines.map((line) => {
    const text = line.trim()
    if (text === "}") {
      const path = `${open.join("\n")}\n}`
      open.pop()
      return path
    }
    const path = [...open, text].join("\n")
    if (text.endsWith("{")) open.push(text)
    return path
  })
}
