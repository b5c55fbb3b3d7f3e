import type { Terminal } from "./environment.ts"

/** The tone of a text. Colour only repeats the words. */
export type Tone = "good" | "warning" | "bad" | "quiet" | "strong"

/** SGR parameters, ECMA-48 8.3.117: the terminal's own colours, which suit its background. */
const parameters: Readonly<Record<Tone, string>> = { good: "32", warning: "33", bad: "31;1", quiet: "2", strong: "1" }

/** A cell of a table. */
export type Cell = string | { readonly text: string; readonly tone: Tone }

/** The width of a terminal, and whether it has colours. */
export type ScreenSize = Pick<Terminal, "columns" | "colour">

/** Narrower than this no column is made to fit a terminal. */
const LEAST_WIDTH = 8

/** The text in the colour of its tone, where there are colours. */
export function tinted(text: string, tone: Tone, { colour }: ScreenSize): string {
  return colour && text !== "" ? `\x1b[${parameters[tone]}m${text}\x1b[0m` : text
}

/**
 * A table whose lines fit the terminal: columns are as wide as their widest cell, and where that is too much the widest ones
 * are cut, with "…" at the cut. Without a terminal nothing is cut. Nothing at all when there are no rows.
 */
export function fittedTable(heads: readonly string[], rows: readonly (readonly Cell[])[], screen: ScreenSize): string {
  if (rows.length === 0) return ""
  const widths = narrowed(
    heads.map((head, column) => Math.max(head.length, ...rows.map((row) => textOf(row[column] ?? "").length))),
    screen.columns,
  )
  const line = (cells: readonly Cell[]) =>
    cells
      .map((cell, column) => {
        const width = widths[column] ?? 0
        const text = cut(textOf(cell), width)
        return `${typeof cell === "string" ? text : tinted(text, cell.tone, screen)}${" ".repeat(width - text.length)}`
      })
      .join("  ")
      .trimEnd()
  const head = heads.map((text): Cell => ({ text, tone: "strong" }))
  return `${[head, ...rows].map(line).join("\n")}\n`
}

/** Text in lines of the terminal's width, or of 100 characters, broken between words; each begins with `indent`. */
export function wrapped(text: string, { columns = 100 }: ScreenSize, indent = ""): string {
  const room = Math.max(LEAST_WIDTH, Math.min(columns, 120) - indent.length)
  const lines: string[] = []
  let current = ""
  for (const word of text.split(" ")) {
    if (current !== "" && current.length + 1 + word.length > room) {
      lines.push(current)
      current = word
    } else current = current === "" ? word : `${current} ${word}`
  }
  return [...lines, current].map((line) => `${indent}${line}\n`).join("")
}

function textOf(cell: Cell): string {
  return typeof cell === "string" ? cell : cell.text
}

function cut(text: string, width: number): string {
  return text.length <= width ? text : `${text.slice(0, Math.max(0, width - 1))}…`
}

/** The widths of columns with two blanks between, the widest taken from until all fit. */
function narrowed(widths: number[], columns: number | undefined): number[] {
  if (columns === undefined) return widths
  const fitted = [...widths]
  let excess = fitted.reduce((sum, width) => sum + width, 0) + 2 * (fitted.length - 1) - columns
  for (; excess > 0; excess--) {
    const widest = fitted.indexOf(Math.max(...fitted))
    const width = fitted[widest] ?? 0
    if (width <= LEAST_WIDTH) break
    fitted[widest] = width - 1
  }
  return fitted
}
