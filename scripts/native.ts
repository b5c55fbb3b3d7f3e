/**
 * Builds the plugins' executable: the engine, the native host (`host/`) and the compiled TypeScript, linked statically.
 *
 * The engine's source comes from the Python package index, pinned by its hash (`host/engine.txt`), and its objects are kept in
 * the user's cache directory, by source, target and flags: they take most of a minute to compile, all else takes seconds.
 */
import { createHash } from "node:crypto"
import {
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
import { basename, dirname, join } from "node:path"
import { execa } from "execa"
import { pluginNames } from "../cmd/plugins.ts"
import { bundle } from "./bundle.ts"

const root = join(import.meta.dir, "..")
const hostDirectory = join(root, "host")
const cacheDirectory = join(process.env.XDG_CACHE_HOME || join(homedir(), ".cache"), "cni-plugins")

/** A machine and a C library to build for. */
export interface Target {
  readonly name: "amd64" | "arm64"
  readonly compiler: string
  readonly objcopy: string
  readonly strip: string
  /** What runs its programs on this machine, before their path. */
  readonly emulator: readonly string[]
}

export const targets: Readonly<Record<Target["name"], Target>> = {
  amd64: { name: "amd64", compiler: "musl-gcc", objcopy: "objcopy", strip: "strip", emulator: [] },
  arm64: {
    name: "arm64",
    compiler: "aarch64-linux-gnu-gcc",
    objcopy: "aarch64-linux-gnu-objcopy",
    strip: "aarch64-linux-gnu-strip",
    emulator: ["qemu-aarch64-static"],
  },
}

/** How an executable is to be. */
export interface Flavour {
  readonly target?: Target
  /** The compiler, where it is not the target's. */
  readonly compiler?: string
  /** More flags for the compiler and the linker: sanitizers, what only tests have. */
  readonly flags?: readonly string[]
  /** Those among `flags` that the engine is compiled with too. */
  readonly engineFlags?: readonly string[]
}

const optimize = ["-O2", "-fPIE", "-D_GNU_SOURCE"]
const engineSources = ["dtoa.c", "libregexp.c", "libunicode.c", "quickjs.c"]
/** The engine's own flags, as its build files have them; its warnings are its authors' affair. */
const engineFlags = ["-std=gnu11", "-DQUICKJS_NG_BUILD", "-funsigned-char", "-w"]
const hostFlags = ["-std=gnu17", "-Wall", "-Wextra", "-Wconversion", "-Werror"]

async function run(command: readonly string[], options: { input?: Uint8Array } = {}): Promise<Uint8Array> {
  const [file = "", ...args] = command
  const result = await execa(file, args, {
    cwd: root,
    encoding: "buffer",
    stripFinalNewline: false,
    reject: false,
    ...options,
  })
  if (result.exitCode === 0) return result.stdout
  const said = Buffer.from(result.stderr ?? "").toString() || result.shortMessage
  throw new Error(`"${command.join(" ")}" failed:\n${said}`)
}

const hashOf = (...parts: (string | Uint8Array)[]) => {
  const hash = createHash("sha256")
  for (const part of parts) hash.update(part).update("\0")
  return hash.digest("hex")
}

/** Makes a directory of the cache once, whole or not at all, whoever else is doing the same. */
async function cached(key: string, make: (directory: string) => Promise<void>): Promise<string> {
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

/** The engine's C sources, fetched from the package index when this machine has not got them yet. */
export async function engineSource(): Promise<string> {
  const requirement = join(hostDirectory, "engine.txt")
  const pinned = readFileSync(requirement)
  return cached(`source-${hashOf(pinned).slice(0, 16)}`, async (directory) => {
    console.error("Fetching the engine's source")
    const pip = [
      "download",
      "--quiet",
      "--no-deps",
      "--no-binary",
      ":all:",
      "--require-hashes",
      "--requirement",
      requirement,
    ]
    await run(["python3", "-m", "pip", ...pip, "--dest", directory])
    const [archive = ""] = readdirSync(directory)
    await run([
      "tar",
      "--extract",
      "--file",
      join(directory, archive),
      "--directory",
      directory,
      "--strip-components=2",
      "--wildcards",
      "*/upstream-quickjs",
    ])
    rmSync(join(directory, archive))
  })
}

/** The engine's objects for a target. */
async function engineObjects(source: string, flavour: Required<Flavour>): Promise<string[]> {
  const flags = [...optimize, ...engineFlags, ...flavour.engineFlags]
  const version = await run([flavour.compiler, "--version"])
  const key = hashOf(source, flavour.compiler, version, ...flags).slice(0, 16)
  const directory = await cached(`engine-${flavour.target.name}-${key}`, async (into) => {
    console.error(
      `Compiling the engine for ${flavour.target.name} ${flavour.engineFlags.join(" ")}: once, about a minute`,
    )
    await Promise.all(
      engineSources.map(async (file) => {
        await run([flavour.compiler, ...flags, "-c", "-o", join(into, `${file}.o`), join(source, file)])
        console.error(`  ${file}`)
      }),
    )
  })
  return engineSources.map((file) => join(directory, `${file}.o`))
}

/** A text as a string of C; paths in our builds hold nothing that assembly would have to escape. */
const quoted = (text: string) => JSON.stringify(text)

/** What a build works with: its directory, the flavour with all defaults, the engine. */
class Workshop {
  readonly flavour: Required<Flavour>
  readonly scratch: string
  readonly source: string
  readonly engine: readonly string[]

  private constructor(flavour: Required<Flavour>, scratch: string, source: string, engine: readonly string[]) {
    this.flavour = flavour
    this.scratch = scratch
    this.source = source
    this.engine = engine
  }

  static async open(scratch: string, { target = targets.amd64, compiler, flags = [], engineFlags = [] }: Flavour) {
    const flavour = { target, compiler: compiler ?? target.compiler, flags, engineFlags }
    const source = await engineSource()
    return new Workshop(flavour, scratch, source, await engineObjects(source, flavour))
  }

  at(name: string): string {
    return join(this.scratch, name)
  }

  /** Compiles files of `host/`. */
  async host(...files: string[]): Promise<string[]> {
    const { compiler, flags } = this.flavour
    return Promise.all(
      files.map(async (file) => {
        const object = this.at(`${file}.o`)
        const all = [...optimize, ...hostFlags, ...flags, "-isystem", this.source]
        await run([compiler, ...all, "-c", "-o", object, join("host", file)])
        return object
      }),
    )
  }

  async assemble(name: string, text: string): Promise<string> {
    writeFileSync(this.at(`${name}.S`), `${text}\n.section .note.GNU-stack,"",@progbits\n`)
    await run([this.flavour.compiler, "-c", "-o", this.at(`${name}.o`), this.at(`${name}.S`)])
    return this.at(`${name}.o`)
  }

  /** A script's bytecode, the same for each machine of one byte order. */
  async bytecode(name: string, script: string): Promise<string> {
    writeFileSync(this.at(`${name}.js`), script)
    await run([await compiler(this.source), this.at(`${name}.js`), this.at(`${name}.bytecode`), name])
    return this.at(`${name}.bytecode`)
  }

  /** `bundles` and `positions` as host.h declares them: the data in a section of its own, the addresses in `tables`. */
  async blobs(bundles: readonly { name: string; file: string }[], positions: string, tables: string): Promise<string> {
    writeFileSync(this.at("positions.txt"), positions)
    const data = [{ name: "positions", file: this.at("positions.txt") }, ...bundles]
    const labels = data.map((_, at) => `.Lname${at}, .Ldata${at}, .Lend${at}`)
    const section = (name: string) => `.section ${name},"${name === ".blobs" ? "a" : "aw"}",@progbits\n.balign 16`
    return this.assemble(
      "blobs",
      [
        section(tables),
        `.global positions, bundles\npositions: .quad ${labels[0]}`,
        "bundles:",
        ...labels.slice(1).map((label) => `.quad ${label}`),
        ".quad 0, 0, 0",
        section(".blobs"),
        ...data.map(({ name }, at) => `.Lname${at}: .asciz ${quoted(name)}`),
        ...data.map(({ file }, at) => `.balign 16\n.Ldata${at}: .incbin ${quoted(file)}\n.Lend${at}: .byte 0`),
      ].join("\n"),
    )
  }

  /** `id` names the build inside the executable: two that have the same one are the same. */
  async link(out: string, id: string, objects: readonly string[], flags: readonly string[]): Promise<void> {
    const { compiler, flags: own } = this.flavour
    const all = [...own, ...flags, `-Wl,--build-id=0x${id.slice(0, 40)}`, "-o", out]
    await run([compiler, ...all, ...objects, ...this.engine, "-lm"])
  }
}

/** The program that compiles scripts, for this machine. */
async function compiler(source: string): Promise<string> {
  const script = readFileSync(join(hostDirectory, "compile.c"))
  const objects = await engineObjects(source, {
    target: targets.amd64,
    compiler: targets.amd64.compiler,
    flags: [],
    engineFlags: [],
  })
  const directory = await cached(`compile-${hashOf(script, ...objects).slice(0, 16)}`, async (into) => {
    const flags = [...optimize, ...hostFlags, "-static", "-isystem", source]
    await run([
      targets.amd64.compiler,
      ...flags,
      "-o",
      join(into, "compile"),
      join(hostDirectory, "compile.c"),
      ...objects,
      "-lm",
    ])
  })
  return join(directory, "compile")
}

/** What decides the bytes of an executable beside its flavour. */
async function buildId(flavour: Required<Flavour>, kind: string, scripts: readonly string[]): Promise<string> {
  const sources = readdirSync(hostDirectory)
    .sort()
    .map((file) => readFileSync(join(hostDirectory, file)))
  return hashOf(kind, flavour.target.name, ...flavour.flags, ...flavour.engineFlags, ...sources, ...scripts)
}

/** What is inside an executable: the bundle of each entry, `globalThis.plugins[name]` after its evaluation. */
export interface Program {
  readonly name: string
  readonly main: string
}

const entry = (name: string) => ({ name, main: join(root, "cmd/entries", `${name}.ts`) })
const allPlugins: readonly Program[] = [...pluginNames, "unknown"].map(entry)

async function inScratch<T>(out: string, work: (scratch: string) => Promise<T>): Promise<T> {
  mkdirSync(dirname(out), { recursive: true })
  const scratch = mkdtempSync(join(dirname(out), `.${basename(out)}-`))
  try {
    return await work(scratch)
  } finally {
    rmSync(scratch, { recursive: true, force: true })
  }
}

/** An executable that evaluates the bytecode of one bundle at each start, position independent. */
export async function buildFromBytecode(out: string, flavour: Flavour = {}, programs = allPlugins): Promise<void> {
  await inScratch(out, async (scratch) => {
    const shop = await Workshop.open(scratch, flavour)
    const bundles = await Promise.all(programs.map((program) => bundle(program.name, [program])))
    const files = await Promise.all(
      bundles.map(async ({ name, script }) => ({ name, file: await shop.bytecode(name, script) })),
    )
    const blobs = await shop.blobs(files, bundles.map(({ positions }) => positions).join("\n"), ".data.rel.ro")
    const objects = await shop.host("main.c", "door.c", "memory.c", "bytecode.c")
    const id = await buildId(
      shop.flavour,
      "bytecode",
      bundles.map(({ script }) => script),
    )
    const way = shop.flavour.flags.some((flag) => flag.startsWith("-fsanitize")) ? ["-pie"] : ["-static-pie"]
    await shop.link(shop.at("linked"), id, [...objects, blobs], way)
    await finish(shop, out)
  })
}

/** Below 2 GB, as code that is not position independent needs it, with room for each to grow. */
const addresses = { image: "0x10000000", blobs: "0x20000000", code: "0x40000000" } as const

/**
 * An executable whose heap is an image of one that has evaluated everything. Throws when the image does not belong to it:
 * code and constants of both links must be the same, byte for byte.
 */
export async function buildFromSnapshot(out: string, flavour: Flavour = {}, programs = allPlugins): Promise<void> {
  await inScratch(out, async (scratch) => {
    const shop = await Workshop.open(scratch, flavour)
    const { script, positions } = await bundle("plugins", programs)
    const bytecode = { name: "plugins", file: await shop.bytecode("plugins", script) }
    const blobs = await shop.blobs([bytecode], positions, ".blobs")
    const objects = await shop.host("main.c", "door.c", "memory.c", "snapshot.c")
    const id = await buildId(shop.flavour, "snapshot", [script])
    const flags = [
      "-static",
      "-no-pie",
      `-Wl,-Ttext-segment=${addresses.code}`,
      `-Wl,--section-start=.image=${addresses.image},--section-start=.blobs=${addresses.blobs}`,
      "-Wl,--wrap=gettimeofday",
    ]
    const section = (content: string) =>
      `.section .image,"aw",@progbits\n.global image_section\nimage_section: ${content}`
    await shop.link(
      shop.at("maker"),
      id,
      [...objects, blobs, await shop.assemble("empty", section(".zero 4096"))],
      flags,
    )
    const { emulator, objcopy } = shop.flavour.target
    writeFileSync(shop.at("image"), await run([...emulator, shop.at("maker")]))
    writeFileSync(bytecode.file, "") // all that it had to give is in the image
    const without = await shop.blobs([bytecode], positions, ".blobs")
    const full = await shop.assemble("full", section(`.incbin ${quoted(shop.at("image"))}`))
    await shop.link(shop.at("linked"), id, [...objects, without, full], flags)
    for (const name of [".text", ".rodata", ".data", ".data.rel.ro", ".init_array"]) {
      const of = async (file: string) => {
        await run([objcopy, "--output-target=binary", `--only-section=${name}`, shop.at(file), shop.at("section")])
        return readFileSync(shop.at("section"))
      }
      if (!(await of("maker")).equals(await of("linked"))) throw new Error(`Section ${name} moved between both links`)
    }
    await finish(shop, out)
  })
}

/** Strips it and gives it its name in one step. */
async function finish(shop: Workshop, out: string): Promise<void> {
  await run([shop.flavour.target.strip, "--strip-all", shop.at("linked")])
  renameSync(shop.at("linked"), out)
}
