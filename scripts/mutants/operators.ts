import { parse } from "@babel/parser"
import { argumentPairs, isNode, isNodes, type Node, type Pair, statementPairs } from "./swaps.ts"

/** One small mistake in a source: what stands between two offsets is replaced. */
export interface Change {
  readonly start: number
  readonly end: number
  readonly replacement: string
  /** The kind of mistake. */
  readonly operator: string
}

/** What each operator of two sides may be mistaken for. */
const binary: Readonly<Record<string, readonly string[]>> = {
  "<": ["<=", ">="],
  "<=": ["<", ">"],
  ">": [">=", "<="],
  ">=": [">", "<"],
  "===": ["!=="],
  "!==": ["==="],
  "+": ["-"],
  "-": ["+"],
  "*": ["/"],
  "/": ["*"],
  "%": ["*"],
  "<<": [">>"],
  ">>": ["<<"],
  ">>>": [">>", "<<"],
  "&": ["|"],
  "|": ["&"],
  "^": ["&"],
  "&&": ["||"],
  "||": ["&&"],
  "+=": ["-="],
  "-=": ["+="],
  "|=": ["&="],
  "&=": ["|="],
  "++": ["--"],
  "--": ["++"],
}

/** Methods that are mistaken for others, or, with "", forgotten. */
const methods: Readonly<Record<string, string>> = {
  some: "every",
  every: "some",
  startsWith: "endsWith",
  endsWith: "startsWith",
  min: "max",
  max: "min",
  filter: "",
  slice: "",
  subarray: "",
  trim: "",
  toLowerCase: "",
  toUpperCase: "",
  sort: "",
  toSorted: "",
  reverse: "",
  toReversed: "",
  concat: "",
  padStart: "",
}

/** Functions whose arguments have no order. */
const unordered = /^(isErrno|Math\.min|Math\.max)$/

/** What a regular expression is mistaken for. */
const patterns: readonly (readonly [RegExp, string])[] = [
  [/^\^/, ""],
  [/(?<!\\)\$$/, ""],
  [/(?<=[\])\w])\+/, "*"],
  [/(?<=[\])\w.])\*/, "+"],
  [/(?<!\\)\[(?!\^)/, "[^"],
  [/(?<!\\)\[\^/, "["],
  [/\\d/, "\\D"],
  [/\\w/, "\\W"],
  [/\\s/, "\\S"],
  [/\\b/, ""],
  [/\{\d+(,\d*)?\}/, ""],
  [/\(\?=/, "(?!"],
  [/\(\?!/, "(?="],
]

/** Every small mistake that the operators can make in a source, in the order of its text. */
export function changesOf(source: string): Change[] {
  const changes = new Map<string, Change>()
  const change = (operator: string, { start, end }: { start: number; end: number }, replacement: string) => {
    if (source.slice(start, end) === replacement) return
    const key = `${start} ${end} ${replacement}`
    if (!changes.has(key)) changes.set(key, { start, end, replacement, operator })
  }
  const text = (node: unknown) => (isNode(node) ? source.slice(node.start, node.end) : "")

  /** The sign between two nodes, which the tree has no place for. */
  const signAfter = (left: Node, sign: string) => {
    const start = source.indexOf(sign, left.end)
    return { start, end: start + sign.length }
  }

  /** An element of a list, with the comma that separates it. */
  const element = (list: readonly Node[], at: number) => {
    const { start, end } = list[at] as Node
    const next = list[at + 1]
    const previous = list[at - 1]
    if (next) return { start, end: next.start }
    return { start: previous ? previous.end : start, end }
  }

  const exchange = (operator: string, [first, second]: Pair) => {
    const between = source.slice(first.end, second.start)
    change(operator, { start: first.start, end: second.end }, `${text(second)}${between}${text(first)}`)
  }

  function swap(node: Node): void {
    const left = node.left as Node
    for (const other of binary[node.operator as string] ?? [])
      change(`operator ${node.operator}`, signAfter(left, node.operator as string), other)
  }

  const operators: Readonly<Record<string, (node: Node) => void>> = {
    BinaryExpression: (node) => {
      swap(node)
      if (node.operator === "in" || node.operator === "instanceof") change("negation", node, `!(${text(node)})`)
    },
    LogicalExpression: (node) => {
      swap(node)
      if (node.operator !== "??") return
      change("fallback", node, text(node.left))
      change("fallback", node, text(node.right))
    },
    AssignmentExpression: swap,
    UpdateExpression: (node) => {
      const other = binary[node.operator as string]?.[0] ?? ""
      const argument = text(node.argument)
      change(`operator ${node.operator}`, node, node.prefix ? `${other}${argument}` : `${argument}${other}`)
    },
    UnaryExpression: (node) => {
      if (["!", "-", "~"].includes(node.operator as string)) change("sign", node, text(node.argument))
    },
    ConditionalExpression: (node) => {
      for (const value of ["true", "false"]) change("condition", node.test as Node, value)
    },
    IfStatement: (node) => {
      for (const value of ["true", "false"]) change("condition", node.test as Node, value)
    },
    WhileStatement: (node) => change("condition", node.test as Node, "false"),
    ExpressionStatement: (node) => change("statement", node, ";"),
    ThrowStatement: (node) => change("throw", node, ";"),
    BreakStatement: (node) => change("statement", node, ";"),
    ContinueStatement: (node) => change("statement", node, ";"),
    ReturnStatement: (node) => {
      if (node.argument && text(node.argument) !== "undefined") change("return", node, "return undefined")
    },
    TryStatement: (node) => {
      if (node.finalizer) change("finally", node.finalizer as Node, "{}")
    },
    VariableDeclaration: (node) => {
      if (node.kind === "using") change("using", { start: node.start, end: node.start + 5 }, "const")
    },
    BooleanLiteral: (node) => change("boolean", node, String(!node.value)),
    NumericLiteral: (node) => {
      change("number", node, String((node.value as number) + 1))
      if (node.value !== 0) change("number", node, String((node.value as number) - 1))
    },
    BigIntLiteral: (node) => change("number", node, `(${text(node)} + 1n)`),
    StringLiteral: (node) => change("text", node, node.value === "" ? '"mutant"' : '""'),
    TemplateLiteral: (node) => change("text", node, "``"),
    RegExpLiteral: (node) => {
      const pattern = node.pattern as string
      for (const [from, to] of patterns) {
        const other = pattern.replace(from, to)
        if (other !== pattern && compiles(other, node.flags as string))
          change("pattern", node, `/${other}/${node.flags}`)
      }
      if (node.flags !== "" && compiles(pattern, "")) change("pattern", node, `/${pattern}/`)
    },
    ArrayExpression: ({ elements }) => {
      const list = elements as Node[]
      if (list.every(isNode)) for (const at of list.keys()) change("element", element(list, at), "")
    },
    ObjectExpression: ({ properties }) => {
      const list = properties as Node[]
      for (const at of list.keys()) change("field", element(list, at), "")
    },
    OptionalMemberExpression: (node) => {
      const member = node as Node & { object: Node; computed: boolean }
      if (node.optional) change("optional", signAfter(member.object, "?."), member.computed ? "" : ".")
    },
    BlockStatement: ({ body }) => {
      for (const pair of statementPairs(body as Node[])) exchange("statements swapped", pair)
    },
    ForOfStatement: ({ right }) => change("only the first", right as Node, `[...${text(right)}].slice(0, 1)`),
    NewExpression: (node) => {
      for (const pair of argumentPairs(node.arguments as Node[])) exchange("arguments swapped", pair)
    },
    CallExpression: (node) => {
      const callee = node.callee as Node & { object: Node; property: Node; computed: boolean }
      const list = node.arguments as Node[]
      for (const [at, argument] of list.entries())
        if (argument.type === "SpreadElement") change("spread", element(list, at), "")
      if (!unordered.test(text(callee))) for (const pair of argumentPairs(list)) exchange("arguments swapped", pair)
      if (callee.type !== "MemberExpression" || callee.computed) return
      const other = methods[text(callee.property)]
      if (/^(map|flatMap)$/.test(text(callee.property)))
        change("only the first", callee.object, `${text(callee.object)}.slice(0, 1)`)
      if (other) change("method", callee.property, other)
      else if (other === "") change("method", node, text(callee.object))
    },
  }

  function walk(node: Node): void {
    if (node.type.startsWith("TS") && !isNode(node.expression)) return
    if (/^(Import|ExportAll)/.test(node.type) || node.declare) return
    operators[node.type]?.(node)
    for (const [key, child] of Object.entries(node)) {
      if (key === "loc" || key === "source" || /comments$/i.test(key) || key === "typeAnnotation") continue
      // The key of a field is not a text of its own.
      if (key === "key" && !node.computed) continue
      if (isNode(child)) walk(child)
      else if (isNodes(child)) child.filter(isNode).forEach(walk)
    }
  }

  walk(parse(source, { sourceType: "module", plugins: ["typescript"] }).program as unknown as Node)
  return [...changes.values()].sort((a, b) => a.start - b.start || a.end - b.end)
}

/** The source with the mistake in it. */
export function applyChange(source: string, { start, end, replacement }: Change): string {
  return source.slice(0, start) + replacement + source.slice(end)
}

function compiles(pattern: string, flags: string): boolean {
  try {
    new RegExp(pattern, flags)
    return true
  } catch {
    return false
  }
}
