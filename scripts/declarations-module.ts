import { dirname, join, relative } from "node:path"
import { parse } from "@babel/parser"
import { root } from "./engine.ts"

/** The fields of a node in Babel's syntax tree that are used. */
interface Node {
  readonly type: string
  readonly start: number
  readonly end: number
  readonly [key: string]: unknown
}

/** A declaration in a module: its text with the comment, and where this text names other declarations. */
export interface Declaration {
  readonly module: string
  readonly name: string
  readonly comment: string
  readonly text: string
  readonly references: readonly { readonly at: number; readonly name: string }[]
}

/** What a name in a module refers to: a declaration, or a name in another module, where "*" stands for all names. */
export interface Source {
  readonly module: string
  readonly name: string
}

export interface Module {
  readonly declarations: ReadonlyMap<string, readonly Declaration[]>
  readonly imports: ReadonlyMap<string, Source>
  readonly exports: ReadonlyMap<string, Source>
  readonly stars: readonly string[]
}

export function readModule(file: string, text: string): Module {
  const declarations = new Map<string, Declaration[]>()
  const imports = new Map<string, Source>()
  const exports = new Map<string, Source>()
  const stars: string[] = []
  const at = (from: unknown) =>
    relative(root, join(root, dirname(file), String((from as Node & { value: string }).value)))
  const nameIn = (node: unknown) => (node as { name: string }).name
  const declare = (statement: Node, node: Node, isExported: boolean) => {
    const found = [node.id ?? (node.declarations as { id: Node }[] | undefined)?.[0]?.id].flatMap((id) => id ?? [])
    for (const id of found) {
      const name = nameIn(id)
      const comments = (statement.leadingComments ?? []) as (Node & { value: string })[]
      const comment = comments.at(-1)?.value.startsWith("*") ? `/*${comments.at(-1)?.value}*/\n` : ""
      const own = text.slice(node.start, node.end).replace(/^export /, "")
      const references = referencesIn(node).map(({ start, name: other }) => ({ at: start - node.start, name: other }))
      declarations.set(name, [
        ...(declarations.get(name) ?? []),
        { module: file, name, comment, text: own, references },
      ])
      if (isExported) exports.set(name, { module: file, name })
    }
  }
  const { program } = parse(text, { sourceType: "module", plugins: [["typescript", { dts: true }]] })
  for (const statement of program.body as unknown as Node[]) {
    if (statement.type === "ImportDeclaration") {
      for (const one of statement.specifiers as Node[]) {
        const from = at(statement.source)
        if (from.endsWith(".ts"))
          imports.set(nameIn(one.local), { module: from, name: nameIn(one.imported ?? one.local) })
      }
    } else if (statement.type === "ExportAllDeclaration") stars.push(at(statement.source))
    else if (statement.type === "ExportNamedDeclaration" && statement.declaration)
      declare(statement, statement.declaration as Node, true)
    else if (statement.type === "ExportNamedDeclaration")
      for (const one of statement.specifiers as Node[]) {
        const module = statement.source ? at(statement.source) : file
        exports.set(nameIn(one.exported), { module, name: nameIn(one.local) })
      }
    else declare(statement, statement, false)
  }
  return { declarations, imports, exports, stars }
}

/** Returns the names in a declaration that may refer to other declarations, and also the declaration's own name. */
function referencesIn(declaration: Node): { start: number; name: string }[] {
  const found: { start: number; name: string }[] = []
  const add = (node: unknown) => {
    const { type, start, name } = node as Node & { name: string }
    if (type === "Identifier") found.push({ start, name })
  }
  const visit = (value: unknown): void => {
    if (Array.isArray(value)) for (const one of value) visit(one)
    if (typeof value !== "object" || value === null || !("type" in value)) return
    const node = value as Node
    if (node.type === "TSImportType")
      throw new Error("A type is imported where it is used: write it at the declaration")
    if (node.type === "TSTypeReference") add(node.typeName)
    if (node.type === "TSTypeQuery") add(node.exprName)
    if (node.type === "TSInterfaceHeritage" || node.type === "TSExpressionWithTypeArguments") add(node.expression)
    if (node.type === "TSClassImplements") add(node.expression)
    if (node.computed) add(node.key)
    if (node.superClass) add(node.superClass)
    for (const [key, child] of Object.entries(node)) if (!/Comments$|^loc$/.test(key)) visit(child)
  }
  const { id, declarations } = declaration as Node & { id?: Node; declarations?: { id: Node }[] }
  const own = id ?? declarations?.[0]?.id
  if (own) found.push({ start: own.start, name: (own as Node & { name: string }).name })
  visit(declaration)
  return found
}
