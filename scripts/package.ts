/**
 * Creates the npm package of the runtime library, `dist/libcni-X.Y.Z.tgz`, from a directory with its own package.json.
 *
 *   npm run package   one archive
 *
 * The package has two entries for Node and Bun: `libcni` (`pkg/npm/libcni.ts`) and `libcni/plugin`
 * (`pkg/npm/plugin.ts`). It contains the bundled code, with the engine's back end for Node, source maps, and
 * declarations (`declarations.ts`).
 */
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs"
import { join, relative, resolve } from "node:path"
import { declarations } from "./declarations.ts"
import { root, run } from "./engine.ts"

/** The package's name on npm. The package has the version of the suite. */
export const packageName = "libcni"

/** The package's entries, and the source of each. */
export const entries = { libcni: "pkg/npm/libcni.ts", plugin: "pkg/npm/plugin.ts" } as const

const suite = JSON.parse(readFileSync(join(root, "package.json"), "utf8"))

function manifest(): object {
  const entry = (name: string) => ({ types: `./${name}.d.ts`, default: `./${name}.js` })
  return {
    name: packageName,
    version: suite.version,
    description: "Container Network Interface for Node and Bun: libcni for runtimes, and what plugins are written with",
    keywords: ["cni", "container", "network", "runtime", "plugin", "linux"],
    license: suite.license,
    type: "module",
    sideEffects: false,
    engines: { node: ">=20.5.0", bun: ">=1.2.0" },
    os: ["linux"],
    exports: { ".": entry("libcni"), "./plugin": entry("plugin"), "./package.json": "./package.json" },
    types: "./libcni.d.ts",
  }
}

/** Returns the package's README: the beginning of pkg/libcni/README.md. */
function readme(): string {
  const page = readFileSync(join(root, "pkg/libcni/README.md"), "utf8")
  return page.slice(0, page.indexOf("\n## Where things are"))
}

/** Writes the content of the package into a directory. */
export async function stage(directory: string): Promise<void> {
  mkdirSync(directory, { recursive: true })
  const built = await Bun.build({
    entrypoints: Object.values(entries).map((file) => join(root, file)),
    outdir: directory,
    target: "node",
    format: "esm",
    conditions: ["npm-package"],
    splitting: true,
    sourcemap: "linked",
    minify: { whitespace: true, syntax: true }, // keeps names, because stack traces and source maps show functions' names
    naming: { entry: "[name].js", chunk: "shared-[hash].js" },
    define: { "import.meta.main": "false" },
  })
  for (const message of built.logs) throw new Error(String(message))
  for (const file of readdirSync(directory)) if (file.endsWith(".map")) shortenMap(join(directory, file))
  const texts = await declarations(entries)
  for (const [name, text] of Object.entries(texts)) writeFileSync(join(directory, `${name}.d.ts`), text)
  writeFileSync(join(directory, "package.json"), `${JSON.stringify(manifest(), undefined, 2)}\n`)
  cpSync(join(root, "LICENSE"), join(directory, "LICENSE"))
  writeFileSync(join(directory, "README.md"), readme())
}

/** Removes the sources from a source map, because stack traces need only names and lines. */
function shortenMap(file: string): void {
  const { sourcesContent: _, sources, ...map } = JSON.parse(readFileSync(file, "utf8"))
  const named = sources.map((source: string) => relative(root, resolve(file, "..", source)))
  writeFileSync(file, JSON.stringify({ ...map, sourceRoot: `${packageName}/`, sources: named }))
}

/** Packs the package into a directory. Returns the path of the archive. */
export async function makePackage(into: string): Promise<string> {
  mkdirSync(into, { recursive: true })
  const scratch = mkdtempSync(join(into, ".package-"))
  try {
    await stage(join(scratch, "stage"))
    await run(["npm", "pack", "--silent", "--pack-destination", scratch, join(scratch, "stage")])
    const name = `${packageName}-${suite.version}.tgz`
    renameSync(join(scratch, name), join(into, name))
    return join(into, name)
  } finally {
    rmSync(scratch, { recursive: true, force: true })
  }
}

if (import.meta.main) console.log(`Built ${await makePackage(join(root, "dist"))}`)
