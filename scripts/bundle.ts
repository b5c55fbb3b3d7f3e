/** TypeScript to the script that the engine compiles: one bundle, and where each of its lines comes from. */
import { relative, resolve } from "node:path"

const root = new URL("..", import.meta.url).pathname

/** What a module exports under a name. */
export interface Export {
  readonly main: string
  readonly name: string
}

/** What is inside an executable: a function that is called, `globalThis.plugins[name]` after the bundle's evaluation. */
export interface Program {
  readonly name: string
  readonly run: Export
  /** What the function is called with: exports, and lists of them. */
  readonly args?: readonly (Export | readonly Export[])[]
}

/** One script; its evaluation leaves `globalThis.plugins`, an object of functions by name. */
export interface Bundle {
  readonly name: string
  readonly script: string
  /** Three lines: the name, the source files, for each line of the script its source (`pkg/engine/native.ts` reads them). */
  readonly positions: string
}

/** The end of the name of a bundle's entry, which no source file is. */
const generated = ".bundle.ts"

/** Bundles programs with all that they import. */
export async function bundle(name: string, programs: readonly Program[]): Promise<Bundle> {
  const imports: string[] = []
  const imported = (value: Export | readonly Export[]): string => {
    if (!("main" in value)) return `[${value.map(imported).join(", ")}]`
    const line = `import { ${JSON.stringify(value.name)} as x${imports.length} } from ${JSON.stringify(value.main)}`
    return `x${imports.push(line) - 1}`
  }
  const runs = programs.map(({ name, run, args = [] }) => {
    return `  ${JSON.stringify(name)}: () => ${imported(run)}(${args.map(imported).join(", ")}),`
  })
  const entry = `${root}cmd/${name}${generated}`
  const source = [...imports, "globalThis.plugins = {", "  __proto__: null,", ...runs, "}", ""].join("\n")
  const built = await Bun.build({
    entrypoints: [entry],
    files: { [entry]: source },
    target: "bun",
    conditions: ["native-host"],
    format: "iife",
    minify: { syntax: true },
    sourcemap: "external",
    define: { "import.meta.main": "false" },
  })
  const [code, map] = built.outputs
  if (!code || !map) throw new Error(`Cannot bundle ${name}`)
  // What the bundler adds goes: a helper that nothing calls, and comments, which tell where this was built. The lines stay,
  // or positions would be wrong.
  const added =
    /^ *\/\/ (@bun|.+\.(json|md|[cm]?[jt]s))$|^\/\/# debugId=.*$|^ *var __require = import\.meta\.require;$/gm
  const script = (await code.text()).replace(added, "")
  const foreign = /__require\("([^"]+)"\)/.exec(script)
  if (foreign) throw new Error(`Cannot bundle ${name}: it imports "${foreign[1]}", which the engine has not got`)
  return { name, script, positions: encodePositions(name, script, await map.json()) }
}

/** What is used of a source map, ECMA-426. */
interface SourceMap {
  readonly sources: readonly string[]
  readonly mappings: string
}

/** A piece of a generated line, from this column on, and the source line that it comes from. */
interface Piece {
  readonly column: number
  readonly file: number
  readonly line: number
}

/**
 * For each line of the script where its first word comes from: "", one line further than the line before; "5", five; "2:7",
 * line 7 of file 2; "x", no file of ours. "@20:-1" after that: from column 20 on, counted from 0, one line before that.
 */
export function encodePositions(name: string, script: string, map: SourceMap): string {
  const files = map.sources.map((file) => relative(root, resolve(file))) // the map's are relative to the working directory
  const mapped = piecesOfLines(map.mappings)
  let at = { file: -1, line: 0 }
  const steps = script.split("\n").map((text, index) => {
    const [first, ...others] = fromFirstWord(mapped[index] ?? [], text.search(/\S/))
    if (!first) return "0"
    if (files[first.file]?.endsWith(generated)) {
      at = { file: -1, line: 0 }
      return "x"
    }
    const change = first.line - at.line
    const step = first.file !== at.file ? `${first.file}:${first.line}` : change === 1 ? "" : String(change)
    at = first
    let line = first.line
    return others.reduce((text, piece) => {
      if (piece.file !== first.file || piece.line === line) return text
      const more = `@${piece.column}:${piece.line - line}`
      line = piece.line
      return text + more
    }, step)
  })
  return [name, files.join(","), steps.join(",")].join("\n")
}

/** Without the pieces before a line's first word: the bundler lets the last one of the line before go on until there. */
function fromFirstWord(pieces: readonly Piece[], column: number): readonly Piece[] {
  const before = pieces.filter((piece) => piece.column <= column).length
  return pieces.slice(Math.max(0, before - 1))
}

/** The pieces of each generated line. */
function piecesOfLines(mappings: string): Piece[][] {
  const at = { file: 0, line: 1 }
  return mappings.split(";").map((segments) => {
    const pieces: Piece[] = []
    let column = 0
    for (const segment of segments.split(",")) {
      const [columns = 0, file, line] = decodeNumbers(segment)
      column += columns
      if (file === undefined || line === undefined) continue
      at.file += file
      at.line += line
      pieces.push({ column, ...at })
    }
    return pieces
  })
}

const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

/** Base64 VLQ: six bits a digit, the highest says that there is more, the lowest of the number is its sign. */
function decodeNumbers(segment: string): number[] {
  const numbers: number[] = []
  let value = 0
  let shift = 0
  for (const digit of segment) {
    const bits = digits.indexOf(digit)
    value += (bits & 31) << shift
    shift += 5
    if (bits & 32) continue
    numbers.push(value & 1 ? -(value >> 1) : value >> 1)
    value = 0
    shift = 0
  }
  return numbers
}
