/**
 * The types of an npm package, one file for each entry: every declaration that an entry exports, and those that these refer to,
 * with their comments, from the declarations that tsc writes for each source. An entry takes from the first one what that exports,
 * so that there is one `CniError`.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { dirname, join, relative } from "node:path"
import { parse } from "@babel/parser"
import { root, run } from "./engine.ts"

/** A node of Babel's syntax tree, as far as it is looked at here. */
interface Node {
  readonly type: string
  readonly start: number
  readonly end: number
  readonly [key: string]: unknown
}

/** A declaration of a module: its text from the comment on, and where names of others stand in it. */
interface Declaration {
  readonly module: string
  readonly name: string
  readonly comment: string
  readonly text: string
  readonly references: readonly { readonly at: number; readonly name: string }[]
}

/** What a name of a module stands for: a declaration of it, or a name of another module; "*" are all of them. */
interface Source {
  readonly module: string
  readonly name: string
}

interface Module {
  readonly declarations: ReadonlyMap<string, readonly Declaration[]>
  readonly imports: ReadonlyMap<string, Source>
  readonly exports: ReadonlyMap<string, Source>
  readonly stars: readonly string[]
}

/** What callers see of a declaration that has more than they need. */
const narrowed: Readonly<Record<string, string>> = {
  NamespaceFile: `/** What is at a path, opened once. */
export interface NamespaceFile {
  /** The path that it was opened by. */
  readonly path: string
  /** "device:inode", which no other namespace that lives has; undefined when nothing is there. */
  readonly identity: string | undefined
  /** Whether it is the plugin's own network namespace. */
  readonly isOwn: boolean
}
`,
  Fields: `/** A table of the configuration's keys, for tools that show them. */
export type Fields = Readonly<Record<string, object>>
`,
  ErrnoName: `/** The name of an error number as in <errno.h>: "ENOENT". */
export type ErrnoName = string
`,
}

/** The declarations of entries: the text of `NAME.d.ts` for each name. */
export async function declarations(entries: Readonly<Record<string, string>>): Promise<Record<string, string>> {
  const directory = mkdtempSync(join(root, "node_modules/.declarations-"))
  try {
    const files = Object.values(entries).map((file) => join(root, file))
    const compilerOptions = {
      noEmit: false,
      declaration: true,
      emitDeclarationOnly: true,
      rootDir: root,
      outDir: "out",
    }
    const config = { extends: join(root, "tsconfig.json"), compilerOptions, files, include: [] }
    writeFileSync(join(directory, "tsconfig.json"), JSON.stringify(config))
    await run([join(root, "node_modules/.bin/tsc"), "-p", directory])
    return rollUp(new Modules(join(directory, "out")), entries)
  } finally {
    rmSync(directory, { recursive: true, force: true })
  }
}

function rollUp(modules: Modules, entries: Readonly<Record<string, string>>): Record<string, string> {
  const texts: Record<string, string> = {}
  let first: { readonly name: string; readonly exported: ReadonlyMap<string, string> } | undefined
  for (const [name, file] of Object.entries(entries)) {
    const exported = new Map<string, string>() // of a declaration the name by which it is exported
    for (const [outer, source] of modules.exportsOf(file)) exported.set(keyOf(source), outer)
    texts[name] = entryText(modules, exported, first)
    first ??= { name, exported }
  }
  return texts
}

const keyOf = ({ module, name }: Source) => `${module}#${name}`

function entryText(
  modules: Modules,
  exported: ReadonlyMap<string, string>,
  first?: { readonly name: string; readonly exported: ReadonlyMap<string, string> },
): string {
  const names = new Map<string, string>() // of a declaration the name that it has in the file
  const taken = new Set<string>(exported.values())
  const reached: (readonly Declaration[])[] = []
  const foreign = new Map<string, string>() // from the first entry: its name there, and the name here
  const reach = (source: Source): string => {
    const key = keyOf(source)
    const known = names.get(key)
    if (known !== undefined) return known
    let name = exported.get(key) ?? source.name
    while (!exported.has(key) && taken.has(name)) name += "_"
    names.set(key, name)
    taken.add(name)
    const there = first?.exported.get(key)
    if (there !== undefined) {
      foreign.set(there, name)
      return name
    }
    const found = modules.declarationsOf(source)
    reached.push(found)
    if (!(source.name in narrowed))
      for (const one of found)
        for (const { name: other } of one.references) {
          const target = modules.resolve(source.module, other)
          if (target) reach(target)
        }
    return name
  }
  for (const key of exported.keys()) {
    const [module = "", name = ""] = key.split("#")
    reach({ module, name })
  }
  const nameOf = (module: string, name: string) => {
    const target = modules.resolve(module, name)
    return target && names.get(keyOf(target))
  }
  const own = reached.flat().map((one) => {
    const shortened = narrowed[one.name]
    if (shortened !== undefined) return shortened
    const isExported = exported.has(keyOf(one))
    return `${one.comment}${isExported ? "export " : ""}${renamed(one, (name) => nameOf(one.module, name))}\n`
  })
  const shared = [...foreign].sort().map(([there, here]) => (there === here ? here : `${there} as ${here}`))
  const open = [...foreign.values()].filter((name) => [...exported.values()].includes(name)).sort()
  const head = [
    ...(shared.length > 0 ? [`import { ${shared.join(", ")} } from "./${first?.name}.js"\n`] : []),
    ...(open.length > 0 ? [`export { ${open.join(", ")} }\n`] : []),
  ]
  // `Disposable` is in no library that TypeScript takes by itself.
  const lib = own.some((text) => text.includes("Symbol.dispose")) ? ['/// <reference lib="esnext.disposable" />\n'] : []
  const indented = [...lib, ...head, ...own, "export {}\n"].join("\n")
  return indented.replace(/^( {4})+/gm, (spaces) => " ".repeat(spaces.length / 2))
}

/** The text of a declaration with the names that others have in the file. */
function renamed({ text, references }: Declaration, nameOf: (name: string) => string | undefined): string {
  let done = text
  for (const { at, name } of references.toSorted((a, b) => b.at - a.at)) {
    done = done.slice(0, at) + (nameOf(name) ?? name) + done.slice(at + name.length)
  }
  return done
}

/** The modules that tsc wrote declarations of. */
class Modules {
  readonly #directory: string
  readonly #read = new Map<string, Module>()

  constructor(directory: string) {
    this.#directory = directory
  }

  #module(file: string): Module {
    const known = this.#read.get(file)
    if (known) return known
    const module = readModule(file, readFileSync(join(this.#directory, file.replace(/\.ts$/, ".d.ts")), "utf8"))
    this.#read.set(file, module)
    return module
  }

  /** The names that a module exports, and what they stand for. */
  exportsOf(file: string): Map<string, Source> {
    const { exports, stars } = this.#module(file)
    const all = new Map<string, Source>()
    for (const star of stars) for (const [name, source] of this.exportsOf(star)) all.set(name, source)
    for (const [name, source] of exports) all.set(name, this.#follow(source))
    return all
  }

  /** What a name means inside a module; undefined for those of the language. */
  resolve(file: string, name: string): Source | undefined {
    const { declarations, imports } = this.#module(file)
    if (declarations.has(name)) return { module: file, name }
    const source = imports.get(name)
    return source && this.#follow(source)
  }

  declarationsOf({ module, name }: Source): readonly Declaration[] {
    return this.#module(module).declarations.get(name) ?? []
  }

  /** Where a name is declared that a module has or exports. */
  #follow(source: Source): Source {
    const found = this.#find(source)
    if (!found) throw new Error(`Cannot find "${source.name}" in ${source.module}`)
    return found
  }

  #find(source: Source): Source | undefined {
    const { declarations, imports, exports, stars } = this.#module(source.module)
    const exported = exports.get(source.name)
    if (exported && keyOf(exported) !== keyOf(source)) return this.#find(exported)
    if (declarations.has(source.name)) return source
    const imported = imports.get(source.name)
    if (imported) return this.#find(imported)
    for (const module of stars) {
      const found = this.#find({ module, name: source.name })
      if (found) return found
    }
    return undefined
  }
}

function readModule(file: string, text: string): Module {
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

/** The names of a declaration that may be those of others: types, what is extended, `typeof`; its own name among them. */
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
