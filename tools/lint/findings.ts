import { foreign } from "../node/mod.ts"
import { type Attachment, attachmentsIn } from "./attachments.ts"
import { type Node, type Position, parseTree, positionOf } from "./document.ts"
import { type Rule, rules, type Severity } from "./rules.ts"

/** A configuration's text, and its tree if it is JSON. Each NetworkAttachmentDefinition in a file is a source. */
export interface Source {
  /** The file's path, as the user gave it. */
  readonly file: string
  /** The configuration's text: the whole file, or `spec.config` of a NetworkAttachmentDefinition. */
  readonly text: string
  readonly tree: Node | undefined
  /** The reason why the file cannot be read. */
  readonly unread?: string
  /** The NetworkAttachmentDefinition that contains the configuration. */
  readonly attachment?: Attachment
}

export interface Finding extends Position {
  readonly file: string
  readonly severity: Severity
  readonly rule: Rule
  readonly message: string
  /** The remedy: a replacement text, or a step. */
  readonly hint?: string
  /** The column after the marked text, on the same line. */
  readonly endColumn: number
}

/** A part of a file's tree, or a position. Undefined stands for the beginning of the file. */
export type Place = Pick<Node, "start" | "end"> | Position | undefined

/** Returns the configurations in a file's text: the file itself, or those of its NetworkAttachmentDefinitions. */
export function readSources(file: string, text: string): Source[] {
  const attachments = attachmentsIn(text)
  if (attachments === undefined) return [{ file, text, tree: treeOf(text) }]
  return attachments.map((attachment) => {
    const config = attachment.config ?? ""
    return { file, text: config, tree: treeOf(config), attachment }
  })
}

/** Returns the tree of a text. Returns undefined if it is not JSON, which the rule json-syntax reports. */
function treeOf(text: string): Node | undefined {
  try {
    JSON.parse(text)
    return parseTree(text)
  } catch {
    return undefined
  }
}

export function fileTextOf({ text, attachment }: Pick<Source, "text" | "attachment">): string {
  return attachment?.whole ?? text
}

export function placeInFile(source: Pick<Source, "text" | "attachment">, offset: number): Position {
  const offsets = source.attachment?.offsets
  const last = offsets?.at(-1) ?? 0
  return positionOf(fileTextOf(source), offsets === undefined ? offset : (offsets[offset] ?? last + 1))
}

export class Findings {
  readonly #found: Finding[] = []

  /** Adds a finding about a part of a file, or about its beginning. */
  add(
    source: Pick<Source, "file" | "text" | "attachment">,
    place: Place,
    rule: Rule,
    message: string,
    more: { hint?: string; severity?: Severity } = {},
  ): void {
    const { line, column } = startOf(source, place)
    const end = place !== undefined && "end" in place ? placeInFile(source, place.end) : undefined
    const finding = {
      file: source.file,
      line,
      column,
      endColumn: end?.line === line ? Math.max(end.column, column + 1) : column + 1,
      severity: more.severity ?? rules[rule],
      rule,
      message: foreign(message), // the message may quote the file
      ...(more.hint === undefined ? {} : { hint: foreign(more.hint) }),
    }
    this.#found.push(finding)
  }

  hasError({ file }: Pick<Source, "file">): boolean {
    return this.#found.some((one) => one.file === file && one.severity === "error")
  }

  /** Reports whether a part of a file has a finding that is an error. */
  hasErrorIn(source: Source, { start, end }: Pick<Node, "start" | "end">): boolean {
    const [first, last] = [placeInFile(source, start), placeInFile(source, end)]
    const isInside = (at: Position) => compare(first, at) <= 0 && compare(at, last) <= 0
    return this.#found.some((one) => one.file === source.file && one.severity === "error" && isInside(one))
  }

  /** Returns all findings, sorted by file, line and column. */
  sorted(): Finding[] {
    return this.#found.toSorted((a, b) => byName(a.file, b.file) || compare(a, b))
  }
}

function startOf(source: Pick<Source, "text" | "attachment">, place: Place): Position {
  if (place === undefined) return placeInFile(source, 0)
  return "start" in place ? placeInFile(source, place.start) : place
}

function compare(a: Position, b: Position): number {
  return a.line - b.line || a.column - b.column
}

function byName(a: string, b: string): number {
  return a < b ? -1 : Number(a > b)
}
