/** Compiles the parts of an executable and links them: the engine, the native host, and scripts. */
import { mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs"
import { basename, join } from "node:path"
import { type Bundle, bundle, type Program } from "./bundle.ts"
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
import { muslOf } from "./musl.ts"

export interface Flavour {
  readonly target?: Target
  /** The compiler; the target's by default. */
  readonly compiler?: string
  /** Additional flags for the compiler and the linker, for sanitizers and for tests. */
  readonly flags?: readonly string[]
  /** The flags with which the engine is also compiled. */
  readonly engineFlags?: readonly string[]
  /** The file of `host/` that allocates the engine's memory; `memory.c` by default. */
  readonly memory?: string
}

/** The parts that all executables of a suite share. */
interface Shared {
  readonly flavour: Required<Flavour>
  readonly source: string
  readonly engine: readonly string[]
  readonly scriptCompiler: string
  /** The linker flag that stores the suite's name in each of its executables. */
  readonly name: string
  /** The parts that are made only once, by key: objects of the host, and the program that makes images. */
  readonly made: Map<string, Promise<string>>
}

/** The size of a plugin's name in the note, which exceeds the longest name. */
const noteSize = 16

/** Quotes a text as a string for C and assembly. Our paths contain no character that must be escaped. */
const quoted = (text: string) => JSON.stringify(text)

/** A directory in which executables are built. Each of several executables has its own `room` in it. */
export class Workshop {
  readonly #scratch: string
  readonly #shared: Shared

  private constructor(scratch: string, shared: Shared) {
    this.#scratch = scratch
    this.#shared = shared
  }

  /** Opens a directory. `suite` are all programs that are built together, in this executable or in others. */
  static async open(scratch: string, asked: Flavour, suite: readonly Program[]): Promise<Workshop> {
    const { target = targets.amd64, flags = [], engineFlags = [], memory = "host/memory.c" } = asked
    const flavour = {
      target,
      compiler: asked.compiler ?? (await muslOf(target)).compiler,
      flags,
      engineFlags,
      memory,
    }
    const source = await engineSource()
    const [engine, compiler] = await Promise.all([engineObjects(source, flavour), scriptCompiler()])
    const { script } = await bundle("plugins", suite)
    const name = named(script, engine, flavour)
    return new Workshop(scratch, { flavour, source, engine, scriptCompiler: compiler, name, made: new Map() })
  }

  get flavour(): Required<Flavour> {
    return this.#shared.flavour
  }

  /** Creates a subdirectory for one executable. */
  room(name: string): Workshop {
    mkdirSync(this.at(name))
    return new Workshop(this.at(name), this.#shared)
  }

  at(name: string): string {
    return join(this.#scratch, name)
  }

  /** Returns the result of `make`, which runs only at the first request in any room. */
  async once(key: string, make: () => Promise<string>): Promise<string> {
    const known = this.#shared.made.get(key) ?? make()
    this.#shared.made.set(key, known)
    return known
  }

  /** Compiles files of the host, which are given by their paths in the project. Returns the objects. */
  async host(...files: string[]): Promise<string[]> {
    return Promise.all(files.map((file) => this.once(file, () => this.#compile(file))))
  }

  async #compile(file: string): Promise<string> {
    const { source, flavour } = this.#shared
    const object = this.at(`${basename(file)}.o`)
    const all = [...optimize, ...hostFlags, ...flavour.flags, "-Ihost", "-isystem", source]
    await run([flavour.compiler, ...all, "-c", "-o", object, file])
    return object
  }

  /** Compiles a script to bytecode, which is the same for all machines of one byte order. Returns the path. */
  async bytecode({ name, script }: Bundle): Promise<string> {
    const file = this.at("bytecode")
    writeFileSync(this.at("script.js"), script)
    await run([this.#shared.scriptCompiler, this.at("script.js"), file, name])
    return file
  }

  /** Writes assembly that embeds files, and a table `tables` of their addresses, as in host.h. Returns the path. */
  blobs(tables: string, files: Readonly<Record<string, string>>): string {
    const section = (name: string) => `.section ${name},"${name === ".blobs" ? "a" : "aw"}",@progbits\n.balign 16`
    const lines = Object.entries(files).flatMap(([name, file]) => [
      section(tables),
      `.global ${name}\n${name}: .quad .Ldata_${name}, .Lend_${name}`,
      section(".blobs"),
      `.Ldata_${name}: .incbin ${quoted(file)}\n.Lend_${name}: .byte 0`,
    ])
    return this.assembly("blobs", ...lines)
  }

  /** Writes assembly with a heap image in snapshot.c's format, or the first page reserved for it. Returns the path. */
  image(file?: string): string {
    const content = file === undefined ? ".zero 4096" : `.incbin ${quoted(file)}`
    return this.assembly("image", `.section .image,"aw",@progbits\n.global image_section\nimage_section: ${content}`)
  }

  /**
   * Writes assembly with a note, elf(5), that contains the plugin's name for `pkg/invoke`. The note has the same size
   * in each executable, so that the addresses in all of them are equal. Returns the path.
   */
  note(plugin = ""): string {
    const name = [`.ascii ${quoted(plugin)}`, `.zero ${noteSize - plugin.length}`]
    return this.assembly(
      "note",
      `.section .note.cni,"a",@note\n.balign 4`,
      `.long 4, ${noteSize}, 1`,
      `.asciz "CNI"`,
      ...name,
    )
  }

  /** Writes assembly into a file. Returns the path. */
  assembly(name: string, ...lines: string[]): string {
    writeFileSync(this.at(`${name}.S`), [...lines, `.section .note.GNU-stack,"",@progbits`, ""].join("\n"))
    return this.at(`${name}.S`)
  }

  /** Links an executable. Removes symbols, unless sanitizers need them for reports. Returns the path. */
  async link(name: string, objects: readonly string[], flags: readonly string[]): Promise<string> {
    const { flavour, engine, name: suite } = this.#shared
    const least = this.isSanitized ? [] : ["-s", "-Wl,--gc-sections"]
    const all = [...flavour.flags, ...least, ...flags, suite]
    await run([flavour.compiler, ...all, "-o", this.at(name), ...engine, ...objects, "-lm"])
    return this.at(name)
  }

  get isSanitized(): boolean {
    return this.flavour.flags.some((flag) => flag.startsWith("-fsanitize"))
  }

  /**
   * Moves an executable to its destination atomically. Writes the file again as a whole, because a linker writes it in
   * pieces, which the page cache stores in small folios, and each start would then take more page faults.
   */
  finish(linked: string, out: string): void {
    writeFileSync(this.at("whole"), readFileSync(linked), { mode: 0o755 })
    renameSync(this.at("whole"), out)
  }
}

/**
 * Returns the linker flag with the suite's name, a digest of the executables' inputs. Executables with the same name
 * have the same sources, in every start mode and for every plugin, and `pkg/invoke` relies on that. `script` is the
 * bundle of all programs of the suite.
 */
function named(script: string, engine: readonly string[], { memory, flags, engineFlags }: Required<Flavour>): string {
  const sources = [...new Bun.Glob("*.[ch]").scanSync(hostDirectory)].sort().map((name) => join(hostDirectory, name))
  const made = [...sources, join(root, memory), ...engine].map((file) => readFileSync(file))
  return `-Wl,--build-id=0x${hashOf(...made, script, ...flags, ...engineFlags).slice(0, 40)}`
}
