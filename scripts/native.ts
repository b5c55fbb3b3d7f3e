/**
 * Builds the plugins' executable: the engine (`engine.ts`), the native host (`host/`) and the compiled TypeScript, linked
 * statically. Two builds are the same byte for byte, wherever they are made.
 */
import { mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs"
import { basename, dirname, join } from "node:path"
import { pluginNames } from "../cmd/plugins.ts"
import { bundle, type Program } from "./bundle.ts"
import {
  engineObjects,
  engineSource,
  hashOf,
  hostDirectory,
  hostFlags,
  optimize,
  root,
  run,
  scriptCompiler,
  type Target,
  targets,
} from "./engine.ts"
import { requireSameAnswers, requireSameSections } from "./verify.ts"

/** How an executable is to be. */
export interface Flavour {
  readonly target?: Target
  /** The compiler, where it is not the target's. */
  readonly compiler?: string
  /** More flags for the compiler and the linker: sanitizers, what only tests have. */
  readonly flags?: readonly string[]
  /** Those among `flags` that the engine is compiled with too. */
  readonly engineFlags?: readonly string[]
  /** The file of `host/` that the engine's memory comes from; `memory.c` by default. */
  readonly memory?: string
}

/** A text as a string of C; paths in our builds hold nothing that assembly would have to escape. */
const quoted = (text: string) => JSON.stringify(text)

/** What a build works with: its directory, the flavour with all defaults, the engine. */
class Workshop {
  readonly flavour: Required<Flavour>
  readonly scratch: string
  readonly source: string
  readonly engine: readonly string[]
  readonly compiler: string

  private constructor(
    flavour: Required<Flavour>,
    scratch: string,
    { source, engine, compiler }: { source: string; engine: readonly string[]; compiler: string },
  ) {
    this.flavour = flavour
    this.scratch = scratch
    this.source = source
    this.engine = engine
    this.compiler = compiler
  }

  static async open(scratch: string, asked: Flavour) {
    const { target = targets.amd64, flags = [], engineFlags = [], memory = "host/memory.c" } = asked
    const flavour = { target, compiler: asked.compiler ?? target.compiler, flags, engineFlags, memory }
    const source = await engineSource()
    const [engine, compiler] = await Promise.all([engineObjects(source, flavour), scriptCompiler()])
    return new Workshop(flavour, scratch, { source, engine, compiler })
  }

  at(name: string): string {
    return join(this.scratch, name)
  }

  /** Compiles files of the host, by their paths in the project. */
  async host(...files: string[]): Promise<string[]> {
    const { compiler, flags } = this.flavour
    return Promise.all(
      files.map(async (file) => {
        const object = this.at(`${basename(file)}.o`)
        const all = [...optimize, ...hostFlags, ...flags, "-Ihost", "-isystem", this.source]
        await run([compiler, ...all, "-c", "-o", object, file])
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
    await run([this.compiler, this.at(`${name}.js`), this.at(`${name}.bytecode`), name])
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

  /**
   * Names the suite inside each of its executables, by what all of them are made of: two that have the same name do the same, in
   * whichever way they start (`pkg/invoke` goes by that). `script` is the bundle of all programs of the suite.
   */
  named(script: string): string {
    const { memory, flags, engineFlags } = this.flavour
    const sources = [...new Bun.Glob("*.[ch]").scanSync(hostDirectory)].sort().map((name) => join(hostDirectory, name))
    const made = [...sources, join(root, memory), ...this.engine].map((file) => readFileSync(file))
    return `-Wl,--build-id=0x${hashOf(...made, script, ...flags, ...engineFlags).slice(0, 40)}`
  }

  async link(out: string, objects: readonly string[], flags: readonly string[]): Promise<void> {
    const { compiler, flags: own } = this.flavour
    await run([compiler, ...own, ...flags, "-o", out, ...objects, ...this.engine, "-lm"])
  }
}

const programsOf = (names: readonly string[]): readonly Program[] =>
  [...names, "unknown"].map((name) => ({ name, main: join(root, "cmd/plugins.ts"), run: name }))

const allPlugins = programsOf(pluginNames)

async function inScratch<T>(out: string, work: (scratch: string) => Promise<T>): Promise<T> {
  mkdirSync(dirname(out), { recursive: true })
  const scratch = mkdtempSync(join(dirname(out), `.${basename(out)}-`))
  try {
    return await work(scratch)
  } finally {
    rmSync(scratch, { recursive: true, force: true })
  }
}

/** Debian's musl for amd64, as its driver has it, too. */
const muslDirectory = "/usr/lib/x86_64-linux-musl"

/** musl's driver does not know `-static-pie`: it would link for a loader that a node has not got. */
function staticPieFlags(compiler: string): string[] {
  if (compiler !== "musl-gcc") return ["-static-pie"]
  const start = ["rcrt1.o", "crti.o", "crtn.o"].map((file) => join(muslDirectory, file))
  return ["-static", "-nostartfiles", "-Wl,-pie,--no-dynamic-linker,-z,text", ...start]
}

/**
 * An executable that evaluates the bytecode of one bundle at each start, position independent. `suite` is what it is built
 * together with, if that is more.
 */
export async function buildFromBytecode(
  out: string,
  flavour: Flavour = {},
  programs = allPlugins,
  suite = programs,
): Promise<void> {
  await inScratch(out, async (scratch) => {
    const shop = await Workshop.open(scratch, flavour)
    const bundles = await Promise.all(programs.map((program) => bundle(program.name, [program])))
    const files = await Promise.all(
      bundles.map(async ({ name, script }) => ({ name, file: await shop.bytecode(name, script) })),
    )
    const blobs = await shop.blobs(files, bundles.map(({ positions }) => positions).join("\n"), ".data.rel.ro")
    const objects = await shop.host("host/main.c", "host/door.c", shop.flavour.memory, "host/bytecode.c")
    const way = isSanitized(shop.flavour) ? ["-pie"] : staticPieFlags(shop.flavour.compiler)
    const { script } = await bundle("plugins", suite)
    await shop.link(shop.at("linked"), [...objects, blobs], [...way, shop.named(script)])
    await finish(shop, out)
  })
}

/** Below 2 GB, as code that is not position independent needs it, with room for each to grow. */
const addresses = { image: "0x10000000", blobs: "0x20000000", code: "0x40000000" } as const

/**
 * An executable whose heap is an image of one that has evaluated everything. Throws when the image does not belong to it: code
 * and constants of both links must be the same, byte for byte, and so must what it answers and what the same programs answer
 * from bytecode.
 */
export async function buildFromSnapshot(out: string, flavour: Flavour = {}, programs = allPlugins): Promise<void> {
  await inScratch(out, async (scratch) => {
    const shop = await Workshop.open(scratch, flavour)
    const reference = buildFromBytecode(shop.at("reference"), flavour, programs)
    const { script, positions } = await bundle("plugins", programs)
    const bytecode = { name: "plugins", file: await shop.bytecode("plugins", script) }
    const blobs = await shop.blobs([bytecode], positions, ".blobs")
    const objects = await shop.host("host/main.c", "host/door.c", shop.flavour.memory, "host/snapshot.c")
    const flags = [
      "-static",
      "-no-pie",
      `-Wl,-Ttext-segment=${addresses.code}`,
      `-Wl,--section-start=.image=${addresses.image},--section-start=.blobs=${addresses.blobs}`,
      "-Wl,--wrap=gettimeofday",
      shop.named(script),
    ]
    const section = (content: string) =>
      `.section .image,"aw",@progbits\n.global image_section\nimage_section: ${content}`
    const empty = await shop.assemble("empty", section(".zero 4096"))
    await shop.link(shop.at("maker"), [...objects, blobs, empty], flags)
    const { emulator, objcopy } = shop.flavour.target
    writeFileSync(shop.at("image"), await run([...emulator, shop.at("maker")]))
    writeFileSync(bytecode.file, "") // all that it had to give is in the image
    const without = await shop.blobs([bytecode], positions, ".blobs")
    const full = await shop.assemble("full", section(`.incbin ${quoted(shop.at("image"))}`))
    await shop.link(shop.at("linked"), [...objects, without, full], flags)
    await requireSameSections(objcopy, shop.at("maker"), shop.at("linked"), shop.at("section"))
    await reference
    const names = programs.map(({ name }) => name)
    await requireSameAnswers([shop.at("linked"), shop.at("reference")], names, emulator, shop.at("verify"))
    await finish(shop, out)
  })
}

/** The plugins that listen to a network: what they lie at in memory is to be the kernel's choice, docs/security.md. */
export const listeners: readonly string[] = ["dhcp"]

/** The executable of `listeners`, which has no other plugin, of the same suite as one that has all. */
export async function buildListeners(out: string, flavour: Flavour = {}): Promise<void> {
  await buildFromBytecode(out, flavour, programsOf(listeners), allPlugins)
}

const isSanitized = ({ flags }: Required<Flavour>) => flags.some((flag) => flag.startsWith("-fsanitize"))

/**
 * Strips it and gives it its name in one step; a sanitizer's reports need the symbols. It is written again, whole: what a linker
 * writes in pieces lies in the page cache in small folios, and each start of it takes more page faults.
 */
async function finish(shop: Workshop, out: string): Promise<void> {
  if (!isSanitized(shop.flavour)) await run([shop.flavour.target.strip, "--strip-all", shop.at("linked")])
  writeFileSync(shop.at("whole"), readFileSync(shop.at("linked")), { mode: 0o755 })
  renameSync(shop.at("whole"), out)
}
