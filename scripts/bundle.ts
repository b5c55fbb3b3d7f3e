/** Bundles TypeScript into one script for the engine, with a map from each line to its source. */
import { relative, resolve } from "node:path"

const root = new URL("..", import.meta.url).pathname

export interface Export {
  readonly main: string
  readonly name: string
}

/** A program in an executable. Evaluation of the bundle makes it the function `globalThis.plugins[name]`. */
export interface Program {
  readonly name: string
  readonly run: Export
  /** The arguments of the function: exports, or lists of exports. */
  readonly args?: readonly (Export | readonly Export[])[]
}

/** A script whose evaluation sets `globalThis.plugins`, an object of functions by name. */
export interface Bundle {
  readonly name: string
  readonly script: string
  /**
   * Three lines: the script's name, the source files, and the source of each script line, for `pkg/engine/native.ts`.
   */
  readonly positions: string
}

/** The suffix of the generated entry's name, which no source file has. */
const generated = ".bundle.ts"

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
  // Removes what the bundler added: an unused helper, and comments that contain the build's directory. The number of
  // lines stays, because positions refer to lines.
  const added =
    /^ *\/\/ (@bun|.+\.(json|md|[cm]?[jt]s))$|^\/\/# debugId=.*$|^ *var __require = import\.meta\.require;$/gm
  const script = (await code.text()).replace(added, "")
  const foreign = /__require\("([^"]+)"\)/.exec(script)
  if (foreign) throw new Error(`Cannot bundle ${name}: it imports "${foreign[1]}", which the engine has not got`)
  return { name, script, positions: encodePositions(name, script, await map.json()) }
}

/** The fields of a source map that are used, ECMA-426. */
interface SourceMap {
  readonly sources: readonly string[]
  readonly mappings: string
}

/** A part of a generated line, with its first column and its source line. */
interface Piece {
  readonly column: number
  readonly file: number
  readonly line: number
}

/**
 * Encodes the source line of the first word in each line of the script, relative to the previous one: "" is the next
 * line, "5" five lines later, "2:7" line 7 of file 2, "x" no file of ours. A suffix "@20:-1" means: one line earlier
 * from column 20 on, counted from 0.
 */
export function encodePositions(name: string, script: string, map: SourceMap): string {
  const files = map.sources.map((file) => relative(root, resolve(file))) // the map's paths are relative to the working directory
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

/** Removes the parts before a line's first word, to which the bundler extends the previous line's last part. */
function fromFirstWord(pieces: readonly Piece[], column: number): readonly Piece[] {
  const before = pieces.filter((piece) => piece.column <= column).length
  return pieces.slice(Math.max(0, before - 1))
}

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

/**
 * Decodes base64 VLQ. A digit has six bits, the highest of which marks continuation. A number's lowest bit is its sign.
 */
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
