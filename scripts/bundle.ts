/** TypeScript to the script that the engine compiles: one bundle, and where each of its lines comes from. */
import { relative, resolve } from "node:path"
import type { Program } from "./native.ts"

const root = new URL("..", import.meta.url).pathname

/** One script; its evaluation leaves `globalThis.plugins`, an object of functions by name. */
export interface Bundle {
  readonly name: string
  readonly script: string
  /** Three lines: the name, the source files, for each line of the script its source (`pkg/engine/native.ts` reads them). */
  readonly positions: string
}

/** Bundles programs with all that they import. */
export async function bundle(name: string, programs: readonly Program[]): Promise<Bundle> {
  const imports = programs.map(({ main }, at) => `import { run as run${at} } from ${JSON.stringify(main)}`)
  const runs = programs.map((program, at) => `  ${JSON.stringify(program.name)}: () => run${at}(),`)
  const entry = `${root}cmd/entries/.${name}.bundle.ts`
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
  const added = /^ *\/\/ (@bun|.+\.(json|[cm]?[jt]s))$|^\/\/# debugId=.*$|^ *var __require = import\.meta\.require;$/gm
  const script = (await code.text()).replace(added, "")
  return { name, script, positions: encodePositions(name, script, await map.json()) }
}

/** What is used of a source map, ECMA-426. */
interface SourceMap {
  readonly sources: readonly string[]
  readonly mappings: string
}

/** For each line of the script the source of its first position: "", one line further; "5", five; "2:7", line 7 of file 2. */
export function encodePositions(name: string, script: string, map: SourceMap): string {
  const files = map.sources.map((file) => relative(root, resolve(file))) // the map's are relative to the working directory
  const steps: string[] = []
  let at = { file: -1, line: 0 }
  for (const position of firstPositions(map.mappings).slice(0, script.split("\n").length)) {
    if (!position) {
      steps.push("0")
      continue
    }
    const change = position.line - at.line
    if (position.file !== at.file) steps.push(`${position.file}:${position.line}`)
    else steps.push(change === 1 ? "" : String(change))
    at = position
  }
  return [name, files.join(","), steps.join(",")].join("\n")
}

/** The file and line that each generated line begins with; undefined where the map says nothing. */
function firstPositions(mappings: string): ({ file: number; line: number } | undefined)[] {
  const at = { file: 0, line: 1 }
  return mappings.split(";").map((segments) => {
    let first: { file: number; line: number } | undefined
    for (const segment of segments.split(",")) {
      const [, file, line] = decodeNumbers(segment)
      if (file === undefined || line === undefined) continue
      at.file += file
      at.line += line
      first ??= { ...at }
    }
    return first
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
