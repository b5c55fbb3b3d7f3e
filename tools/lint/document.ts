/** A JSON value with its position in the text. */
export type Node = ScalarNode | ListNode | ObjectNode

interface Placed {
  /** Offsets in the text, in UTF-16 code units. */
  readonly start: number
  readonly end: number
}

export interface ScalarNode extends Placed {
  readonly kind: "scalar"
  readonly value: string | number | boolean | null
}

export interface ListNode extends Placed {
  readonly kind: "list"
  readonly items: readonly Node[]
}

/** An object with its members in order. Includes duplicate keys. */
export interface ObjectNode extends Placed {
  readonly kind: "object"
  readonly members: readonly Member[]
}

export interface Member {
  readonly key: string
  readonly keyNode: Placed
  readonly value: Node
}

/** A position in a text. Line and column begin at 1, and columns count characters. */
export interface Position {
  readonly line: number
  readonly column: number
}

const token = /\s*(?:([[\]{},:])|("(?:[^"\\]|\\.)*")|([^\s[\]{},:"]+))/y

/** Parses a text that `JSON.parse` accepts into a tree. */
export function parseTree(text: string): Node {
  let at = 0
  const next = () => {
    token.lastIndex = at
    const match = token.exec(text)
    if (!match) throw new Error(`Cannot read the text at ${at}: it is not JSON`)
    at = token.lastIndex
    const word = match[1] ?? match[2] ?? match[3] ?? ""
    return { word, start: at - word.length, end: at }
  }
  const value = (first: ReturnType<typeof next>): Node => {
    if (first.word === "{") return object(first.start)
    if (first.word === "[") return list(first.start)
    return { kind: "scalar", value: JSON.parse(first.word), start: first.start, end: first.end }
  }
  const object = (start: number): ObjectNode => {
    const members: Member[] = []
    for (let key = next(); key.word !== "}"; key = next()) {
      if (key.word === ",") continue
      next() // skips the colon
      members.push({ key: JSON.parse(key.word), keyNode: key, value: value(next()) })
    }
    return { kind: "object", members, start, end: at }
  }
  const list = (start: number): ListNode => {
    const items: Node[] = []
    for (let item = next(); item.word !== "]"; item = next()) if (item.word !== ",") items.push(value(item))
    return { kind: "list", items, start, end: at }
  }
  return value(next())
}

export function positionOf(text: string, offset: number): Position {
  const before = text.slice(0, offset)
  const lineStart = before.lastIndexOf("\n") + 1
  return { line: before.split("\n").length, column: [...before.slice(lineStart)].length + 1 }
}

export function offsetOf(text: string, { line, column }: Position): number {
  const lines = text.split("\n")
  const before = lines.slice(0, line - 1).reduce((sum, each) => sum + each.length + 1, 0)
  return before + [...(lines[line - 1] ?? "")].slice(0, column - 1).join("").length
}

/** Returns a member of an object by its key. Ignores case as plugins do: an exact match wins, then the last match. */
export function memberOf(node: Node | undefined, key: string): Member | undefined {
  if (node?.kind !== "object") return undefined
  const folded = key.toLowerCase()
  const exact = node.members.findLast((member) => member.key === key)
  return exact ?? node.members.findLast((member) => member.key.toLowerCase() === folded)
}

/** Returns the value at a path of keys and indexes, or undefined if it does not exist. */
export function nodeAt(node: Node | undefined, path: readonly (string | number)[]): Node | undefined {
  let found = node
  for (const step of path) found = typeof step === "number" ? itemOf(found, step) : memberOf(found, step)?.value
  return found
}

function itemOf(node: Node | undefined, index: number): Node | undefined {
  return node?.kind === "list" ? node.items[index] : undefined
}

/** Returns the text at a path, or undefined if the value is not a string. */
export function textAt(node: Node | undefined, path: readonly (string | number)[]): string | undefined {
  const found = nodeAt(node, path)
  return found?.kind === "scalar" && typeof found.value === "string" ? found.value : undefined
}

/** Reports whether the value at a path is `true`. */
export function isOn(node: Node | undefined, path: readonly (string | number)[]): boolean {
  const found = nodeAt(node, path)
  return found?.kind === "scalar" && found.value === true
}

/** Returns the items of the list at a path, or none if the value is not a list. */
export function itemsAt(node: Node | undefined, path: readonly (string | number)[]): readonly Node[] {
  const found = nodeAt(node, path)
  return found?.kind === "list" ? found.items : []
}
