import { foreign } from "../node/mod.ts"
import { type Node, type Position, parseTree, positionOf } from "./document.ts"
import { type Rule, rules, type Severity } from "./rules.ts"

/** A file, and its tree when it is JSON. */
export interface Source {
  /** The path, as given by the user. */
  readonly file: string
  readonly text: string
  readonly tree: Node | undefined
  /** Why the file cannot be read. */
  readonly unread?: string
}

/** Something that a rule has found. */
export interface Finding extends Position {
  readonly file: string
  readonly severity: Severity
  readonly rule: Rule
  readonly message: string
  /** The remedy: a replacement, or a step. */
  readonly hint?: string
  /** The end of what is meant, on the same line. */
  readonly endColumn: number
}

/** A place in a file: a part of its tree, or "start". */
export type Place = Pick<Node, "start" | "end"> | Position | undefined

/** A file's text with its tree. */
export function readSource(file: string, text: string): Source {
  let tree: Node | undefined
  try {
    JSON.parse(text)
    tree = parseTree(text)
  } catch {
    // the rule json-syntax says why
  }
  return { file, text, tree }
}

/** Collects what the rules find. */
export class Findings {
  readonly #found: Finding[] = []

  /** Adds a finding at a place of a file; without a place, at its beginning. */
  add(
    source: Pick<Source, "file" | "text">,
    place: Place,
    rule: Rule,
    message: string,
    more: { hint?: string; severity?: Severity } = {},
  ): void {
    const { line, column } = startOf(source.text, place)
    const end = endOf(source.text, place)
    const finding = {
      file: source.file,
      line,
      column,
      endColumn: end?.line === line ? end.column : column + 1,
      severity: more.severity ?? rules[rule],
      rule,
      message: foreign(message), // it may quote the file
      ...(more.hint === undefined ? {} : { hint: foreign(more.hint) }),
    }
    this.#found.push(finding)
  }

  /** Whether a file has an error already. */
  hasError({ file }: Pick<Source, "file">): boolean {
    return this.#found.some((one) => one.file === file && one.severity === "error")
  }

  /** Whether there is an error within a part of a file. */
  hasErrorIn(source: Source, { start, end }: Pick<Node, "start" | "end">): boolean {
    const [first, last] = [positionOf(source.text, start), positionOf(source.text, end)]
    const isInside = (at: Position) => compare(first, at) <= 0 && compare(at, last) <= 0
    return this.#found.some((one) => one.file === source.file && one.severity === "error" && isInside(one))
  }

  /** All findings, by file, then by line and column. */
  sorted(): Finding[] {
    return this.#found.toSorted((a, b) => byName(a.file, b.file) || compare(a, b))
  }
}

function startOf(text: string, place: Place): Position {
  if (place === undefined) return { line: 1, column: 1 }
  return "start" in place ? positionOf(text, place.start) : place
}

function endOf(text: string, place: Place): Position | undefined {
  return place !== undefined && "end" in place ? positionOf(text, place.end) : undefined
}

function compare(a: Position, b: Position): number {
  return a.line - b.line || a.column - b.column
}

function byName(a: string, b: string): number {
  return a < b ? -1 : Number(a > b)
}
