/**
 * Collects the types of an npm package into one file per entry: every declaration that the entry exports, and those to
 * which these refer, with their comments. The input is the declarations that tsc writes for each source. Later entries
 * import the exports of the first entry, so that only one `CniError` exists.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { type Declaration, type Module, readModule, type Source } from "./declarations-module.ts"
import { root, run } from "./engine.ts"

/** Declarations with fewer members, which replace those in the sources. */
const narrowed: Readonly<Record<string, string>> = {
  NamespaceFile: `/** The file at a path, opened once. */
export interface NamespaceFile {
  /** The path that it was opened by. */
  readonly path: string
  /** "device:inode", which no other existing namespace has; undefined if the path does not exist. */
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

/** Returns the text of `NAME.d.ts` for each entry, by name. */
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
    const exported = new Map<string, string>() // exported names of declarations
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
  const names = new Map<string, string>() // names of declarations in the file
  const taken = new Set<string>(exported.values())
  const reached: (readonly Declaration[])[] = []
  const foreign = new Map<string, string>() // names in the first entry, by the name used here
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
  // TypeScript's default libraries do not contain `Disposable`.
  const lib = own.some((text) => text.includes("Symbol.dispose")) ? ['/// <reference lib="esnext.disposable" />\n'] : []
  const indented = [...lib, ...head, ...own, "export {}\n"].join("\n")
  return indented.replace(/^( {4})+/gm, (spaces) => " ".repeat(spaces.length / 2))
}

/** Returns the text of a declaration, in which other declarations have their names in the file. */
function renamed({ text, references }: Declaration, nameOf: (name: string) => string | undefined): string {
  let done = text
  for (const { at, name } of references.toSorted((a, b) => b.at - a.at)) {
    done = done.slice(0, at) + (nameOf(name) ?? name) + done.slice(at + name.length)
  }
  return done
}

/** The modules for which tsc wrote declarations. */
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

  /** Returns the exported names of a module, and what each refers to. */
  exportsOf(file: string): Map<string, Source> {
    const { exports, stars } = this.#module(file)
    const all = new Map<string, Source>()
    for (const star of stars) for (const [name, source] of this.exportsOf(star)) all.set(name, source)
    for (const [name, source] of exports) all.set(name, this.#follow(source))
    return all
  }

  /** Returns what a name inside a module refers to; undefined for names of the language. */
  resolve(file: string, name: string): Source | undefined {
    const { declarations, imports } = this.#module(file)
    if (declarations.has(name)) return { module: file, name }
    const source = imports.get(name)
    return source && this.#follow(source)
  }

  declarationsOf({ module, name }: Source): readonly Declaration[] {
    return this.#module(module).declarations.get(name) ?? []
  }

  /** Follows imports and exports to the module that declares a name. */
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
