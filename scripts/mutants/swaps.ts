/** A node of the syntax tree, as far as the operators look at it. */
export interface Node {
  readonly type: string
  readonly start: number
  readonly end: number
  readonly [key: string]: unknown
}

export const isNode = (value: unknown): value is Node =>
  typeof value === "object" && value !== null && typeof (value as Node).type === "string"

export const isNodes = (value: unknown): value is Node[] => Array.isArray(value) && value.some(isNode)

/**
 * Neighbours that may be taken for each other without the compiler's noticing it: the first and the second of each
 * pair.
 */
export type Pair = readonly [Node, Node]

/** The arguments of a call that stand side by side. */
export function argumentPairs(list: readonly Node[]): Pair[] {
  return pairs(list).filter((pair) => pair.every(({ type }) => type !== "SpreadElement"))
}

/**
 * The statements that stand side by side and do something: a call before a call, a guard before a `using`. Left out are
 * those of which the second needs what the first declares, which would not compile, and two that only have values,
 * whose order says nothing.
 */
export function statementPairs(list: readonly Node[]): Pair[] {
  return pairs(list).filter(([first, second]) => {
    const kinds = [kindOf(first), kindOf(second)]
    const isOrdered = kinds.every((kind) => kind === "effect" || kind === "call")
    const isRead = kinds.includes("call") && kinds.includes("value")
    const declared = new Set(namesDeclaredBy(first))
    return (
      (isOrdered || isRead) && !some(second, (node) => node.type === "Identifier" && declared.has(String(node.name)))
    )
  })
}

function pairs(list: readonly Node[]): Pair[] {
  return list.slice(1).map((second, at) => [list[at] as Node, second] as const)
}

const effects = ["IfStatement", "ForOfStatement", "ForStatement", "WhileStatement", "TryStatement", "SwitchStatement"]

/**
 * What a statement is for: a call for what it does, a value that a call gives, another thing that it does, or nothing
 * of these.
 */
function kindOf(statement: Node): "call" | "value" | "effect" | undefined {
  if (statement.type === "ExpressionStatement") return "call"
  if (statement.type !== "VariableDeclaration") return effects.includes(statement.type) ? "effect" : undefined
  if (statement.kind === "using") return "effect"
  return (statement.declarations as { init: unknown }[]).some(
    ({ init }) => isNode(init) && some(init, isCall, isFunction),
  )
    ? "value"
    : undefined
}

const isCall = ({ type }: Node) => /^((Optional)?Call|New|Await)Expression$/.test(type)
/** A call in a function is not yet made. */
const isFunction = ({ type }: Node) => /Function/.test(type)

function namesDeclaredBy({ type, declarations }: Node): string[] {
  if (type !== "VariableDeclaration") return []
  const names: string[] = []
  for (const { id } of declarations as { id: Node }[])
    some(id, (node) => {
      if (node.type === "Identifier") names.push(String(node.name))
      return false
    })
  return names
}

/** Whether a node, or one in it, is such a one, but for what is in others. */
function some(node: Node, is: (node: Node) => boolean, isOutside = (_: Node) => false): boolean {
  if (isOutside(node)) return false
  if (is(node)) return true
  return Object.entries(node).some(([key, child]) => {
    if (key === "loc" || /comments$/i.test(key)) return false
    const nodes = isNode(child) ? [child] : isNodes(child) ? child.filter(isNode) : []
    return nodes.some((each) => some(each, is, isOutside))
  })
}
