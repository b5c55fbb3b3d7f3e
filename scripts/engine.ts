/**
 * Provides the engine: its source from the Python package index, pinned by a hash (`host/engine.txt`), its objects for
 * a target, and the program that compiles scripts. See docs/develop/engine.md.
 *
 * All of this is kept in the user's cache directory by the hash of its inputs, because compiling takes most of a
 * minute.
 */
import { cpSync, existsSync, readdirSync, readFileSync, rmSync } from "node:fs"
import { basename, join } from "node:path"
import { cached, hashOf, hostDirectory, run } from "./cache.ts"
import { fetchEngine, findVendored, pinnedEngine } from "./sources.ts"

export { cacheDirectory, cached, hashOf, hostDirectory, root, run } from "./cache.ts"

/** A machine for which executables are built. */
export interface Target {
  readonly name: "amd64" | "arm64"
  /** The command that runs the target's programs on this machine; empty if none is needed. */
  readonly emulator: readonly string[]
}

export const targets: Readonly<Record<Target["name"], Target>> = {
  amd64: { name: "amd64", emulator: [] },
  arm64: { name: "arm64", emulator: ["qemu-aarch64"] },
}

/** The compiler that uses musl, for this machine. */
export const muslCompiler = process.env.CNI_CC_AMD64 || "musl-gcc"

/**
 * The flags for sections: a section for each function, so that the linker removes unused ones, and none for exceptions.
 */
const sections = ["-ffunction-sections", "-fdata-sections", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables"]
export const optimize = ["-O2", "-fPIE", "-D_GNU_SOURCE", ...sections]
export const hostFlags = ["-std=gnu17", "-Wall", "-Wextra", "-Wconversion", "-Werror"]
/** The engine's own flags from its build files. Warnings are disabled, because only its authors can mend the code. */
const engineFlags = ["-std=gnu11", "-DQUICKJS_NG_BUILD", "-funsigned-char", "-w"]
export const engineSources = ["dtoa.c", "libregexp.c", "libunicode.c", "quickjs.c"]

/**
 * Returns the directory of the engine's C sources with our patches. "engine" is the source for nodes. "compiler" has
 * one more patch and is the source of the program that compiles scripts.
 */
export async function engineSource(patched: "engine" | "compiler" = "engine"): Promise<string> {
  const below = patched === "engine" ? await publishedSource() : await engineSource()
  const patch = join(hostDirectory, `${patched}.patch`)
  return cached(`${patched}-source-${hashOf(basename(below), readFileSync(patch)).slice(0, 16)}`, async (directory) => {
    cpSync(below, directory, { recursive: true })
    await run(["patch", "--quiet", "--strip=1", `--directory=${directory}`, `--input=${patch}`])
  })
}

/** Returns the directory of the published C sources, from the archive or from `CNI_ENGINE_SOURCE`. */
async function publishedSource(): Promise<string> {
  const own = process.env.CNI_ENGINE_SOURCE
  if (own) return copySource(own)
  const pinned = pinnedEngine()
  const vendored = findVendored(pinned)
  return cached(`source-${pinned.sha256.slice(0, 16)}`, async (directory) => {
    const download = join(directory, "download")
    const archive = vendored ?? (await fetchEngine(download))
    const only = ["--strip-components=2", "--wildcards", "*/upstream-quickjs"]
    await run(["tar", "--extract", "--file", archive, "--directory", directory, ...only])
    rmSync(download, { recursive: true, force: true })
  })
}

/** Copies the C files of a directory, because the user may change them later. Throws if a required file is missing. */
async function copySource(own: string): Promise<string> {
  const there = existsSync(own)
    ? readdirSync(own)
        .filter((name) => /\.[ch]$/.test(name))
        .sort()
    : []
  const missing = engineSources.filter((name) => !there.includes(name))
  if (missing.length > 0)
    throw new Error(`Cannot build with the engine of CNI_ENGINE_SOURCE, "${own}": it has no ${missing.join(", ")}`)
  const key = hashOf(...there.flatMap((name) => [name, readFileSync(join(own, name))]))
  return cached(`source-${key.slice(0, 16)}`, async (directory) => {
    for (const name of there) cpSync(join(own, name), join(directory, name))
  })
}

export interface EngineFlavour {
  readonly target: Target
  readonly compiler: string
  readonly engineFlags: readonly string[]
}

/** Returns the engine's objects for a target, which do not contain the path of their build directory. */
export async function engineObjects(source: string, flavour: EngineFlavour): Promise<string[]> {
  const { target, compiler } = flavour
  const flags = [...optimize, ...engineFlags, ...flavour.engineFlags]
  const version = await run([compiler, "--version"])
  const key = hashOf(basename(source), compiler, version, ...flags).slice(0, 16)
  const directory = await cached(`engine-${target.name}-${key}`, async (into) => {
    const what = [target.name, ...flavour.engineFlags].join(" ")
    console.error(`Compiling the engine for ${what}: once, it takes about a minute`)
    let done = 0
    await Promise.all(
      engineSources.map(async (file) => {
        const all = [...flags, `-ffile-prefix-map=${source}=engine`]
        await run([compiler, ...all, "-c", "-o", join(into, `${file}.o`), join(source, file)])
        console.error(`  ${++done} of ${engineSources.length}: ${file}`)
      }),
    )
  })
  return engineSources.map((file) => join(directory, `${file}.o`))
}

/** Returns the path of the program that compiles scripts to bytecode on this machine. */
export async function scriptCompiler(): Promise<string> {
  const source = await engineSource("compiler")
  const script = join(import.meta.dir, "compile.c")
  const objects = await engineObjects(source, { target: targets.amd64, compiler: muslCompiler, engineFlags: ["-O0"] })
  const directory = await cached(`compile-${hashOf(readFileSync(script), ...objects).slice(0, 16)}`, async (into) => {
    const flags = [...optimize, ...hostFlags, "-static", "-isystem", source]
    await run([muslCompiler, ...flags, "-o", join(into, "compile"), script, ...objects, "-lm"])
  })
  return join(directory, "compile")
}
