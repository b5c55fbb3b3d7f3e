/** The meaning of a text, which its color shows in addition to the words. */
export type Tone = "good" | "warning" | "bad" | "quiet" | "strong"

/** SGR parameters, ECMA-48 8.3.117: the terminal's own colors, which suit its background. */
const parameters: Readonly<Record<Tone, string>> = { good: "32", warning: "33", bad: "31;1", quiet: "2", strong: "1" }

export type Cell = string | { readonly text: string; readonly tone: Tone }

/** The properties of the terminal on stdout. */
export interface ScreenSize {
  /** The current width of stdout in characters, or undefined if unlimited. */
  readonly columns?: number | undefined
  /** Whether stdout supports colors and the user wants them: <https://no-color.org>. */
  readonly colour?: boolean
}

/** How to format text. If `isWide`, tables have every column. If `hasHeads` is false, tables have no head. */
export interface Screen extends ScreenSize {
  readonly isWide?: boolean
  readonly hasHeads?: boolean
}

/** A column of a table, with its head. By default, it is shortened if the table does not fit the screen. */
export type Column = string | { readonly head: string; readonly isWhole?: boolean; readonly falls?: number }

/** The smallest width to which a column is shortened, in characters. */
const LEAST_WIDTH = 8

/** Returns the text in the color of its tone, if the screen has colors. */
export function tinted(text: string, tone: Tone, { colour }: ScreenSize): string {
  return colour && text !== "" ? `\x1b[${parameters[tone]}m${text}\x1b[0m` : text
}

/**
 * Matches escape sequences of the tools themselves first: a cleared screen or line at the beginning, and colors. Then
 * matches control characters (C0 and C1) and bidirectional formatting characters.
 */
const CONTROLS =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: this expression finds them
  /^(?:\x1b\[H\x1b\[J|\r\x1b\[K)|\x1b\[(?:0|1|2|31;1|32|33)m|[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufffe\uffff]/g

/**
 * Returns the text with each control character escaped, such as `\u001b`, an escape that JSON also has. A container can
 * put control characters into an interface name, where they would clear the screen or hide a line. Newlines, tabs and
 * colors of `tinted` stay.
 */
export function visible(text: string): string {
  return text.replace(CONTROLS, (found) => {
    return found.length > 1 ? found : `\\u${found.charCodeAt(0).toString(16).padStart(4, "0")}`
  })
}

/**
 * Returns a table that fits the terminal, or "" if there are no rows. Columns are as wide as their widest cell. If a
 * line is too long, the widest columns are shortened and end with "…". If that is not enough, columns with `falls` are
 * dropped, the lowest number first. Columns with `isWhole` are never shortened. Without a terminal, no column is
 * shortened.
 */
export function fittedTable(columns: readonly Column[], rows: readonly (readonly Cell[])[], screen: Screen): string {
  if (rows.length === 0) return ""
  const heads = columns.map((column): Cell => ({ text: headOf(column), tone: "strong" }))
  const shown = screen.hasHeads === false ? rows : [heads, ...rows]
  const widths = fitInto(
    columns.map((column, at) => ({ column, at, width: Math.max(...shown.map((row) => textOf(row[at] ?? "").length)) })),
    screen.columns,
  )
  const line = (cells: readonly Cell[]) =>
    widths
      .map(({ at, width }) => {
        const cell = cells[at] ?? ""
        const text = cut(textOf(cell), width)
        return `${typeof cell === "string" ? text : tinted(text, cell.tone, screen)}${" ".repeat(width - text.length)}`
      })
      .join("  ")
      .trimEnd()
  return `${shown.map(line).join("\n")}\n`
}

/** Returns a container's ID. On a terminal, an ID of 64 digits is shortened to 12, as in runtimes. */
export function containerText(id: string, { columns }: ScreenSize): string {
  return columns !== undefined && /^[0-9a-f]{64}$/.test(id) ? id.slice(0, 12) : id
}

/** Wraps text between words at the terminal's width, or at 100 characters. Each line begins with `indent`. */
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

/** Wraps text like `wrapped` behind a label of `width` characters. The first line has no indentation. */
export function hanging(text: string, screen: ScreenSize, width: number): string {
  return wrapped(text, screen, " ".repeat(width)).slice(width)
}

function textOf(cell: Cell): string {
  return typeof cell === "string" ? cell : cell.text
}

function cut(text: string, width: number): string {
  return text.length <= width ? text : `${text.slice(0, Math.max(0, width - 1))}…`
}

function headOf(column: Column): string {
  return typeof column === "string" ? column : column.head
}

interface Fitted {
  readonly column: Column
  /** The index of the column's cells in a row. */
  readonly at: number
  readonly width: number
}

/** Returns the columns with widths that fit the screen, or too wide ones if no column can be narrowed further. */
function fitInto(columns: readonly Fitted[], room: number | undefined): readonly Fitted[] {
  if (room === undefined) return columns
  const narrow = narrowed(columns, room)
  if (excessOf(narrow, room) <= 0) return narrow
  const order = ({ column }: Fitted) => (typeof column === "string" ? Infinity : (column.falls ?? Infinity))
  const first = Math.min(...columns.map(order))
  return first === Infinity
    ? narrow
    : fitInto(
        columns.filter((each) => order(each) !== first),
        room,
      )
}

/** Narrows the widest columns that may be shortened, until all columns fit or have their smallest width. */
function narrowed(columns: readonly Fitted[], room: number): readonly Fitted[] {
  const spare = ({ column, width }: Fitted) =>
    typeof column !== "string" && column.isWhole ? 0 : Math.max(0, width - Math.max(LEAST_WIDTH, headOf(column).length))
  let fitted = columns
  for (let excess = excessOf(columns, room); excess > 0; excess--) {
    const widest = Math.max(...fitted.map((each) => (spare(each) > 0 ? each.width : 0)))
    if (widest === 0) break
    const taken = fitted.findIndex((each) => each.width === widest && spare(each) > 0)
    fitted = fitted.map((each, at) => (at === taken ? { ...each, width: each.width - 1 } : each))
  }
  return fitted
}

/** Returns the number of characters by which lines are too long. Two spaces separate columns. */
function excessOf(columns: readonly Fitted[], room: number): number {
  return columns.reduce((sum, { width }) => sum + width + 2, -2) - room
}
