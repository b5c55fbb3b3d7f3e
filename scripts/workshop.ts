/** The tools and parts of an executable: a directory to work in, the engine, the native host, compiled scripts. */
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

/** The properties of an executable. */
export interface Flavour {
  readonly target?: Target
  /** The compiler, where it is not the target's. */
  readonly compiler?: string
  /** More flags for the compiler and the linker: sanitizers, and parts for tests. */
  readonly flags?: readonly string[]
  /** Those among `flags` that the engine is compiled with too. */
  readonly engineFlags?: readonly string[]
  /** The file of `host/` that the engine's memory comes from; `memory.c` by default. */
  readonly memory?: string
}

/** The common parts of all executables of one suite. */
interface Shared {
  readonly flavour: Required<Flavour>
  readonly source: string
  readonly engine: readonly string[]
  readonly scriptCompiler: string
  /** The flag that names the suite inside each of its executables. */
  readonly name: string
  /** Parts that were made once: objects of the host, the program that makes images. */
  readonly made: Map<string, Promise<string>>
}

/** Longer than each plugin's name. */
const noteSize = 16

/** A text as a string of C; paths in our builds hold nothing that assembly would have to escape. */
const quoted = (text: string) => JSON.stringify(text)

/** A directory to build in, with the required files; a `room` in it is for one executable of several. */
export class Workshop {
  readonly #scratch: string
  readonly #shared: Shared

  private constructor(scratch: string, shared: Shared) {
    this.#scratch = scratch
    this.#shared = shared
  }

  /** `suite` is everything that is built together, in this executable or others. */
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

  /** A directory in this one, for one executable. */
  room(name: string): Workshop {
    mkdirSync(this.at(name))
    return new Workshop(this.at(name), this.#shared)
  }

  at(name: string): string {
    return join(this.#scratch, name)
  }

  /** Returns the result of `make`, which runs at the first request, in this room or another. */
  async once(key: string, make: () => Promise<string>): Promise<string> {
    const known = this.#shared.made.get(key) ?? make()
    this.#shared.made.set(key, known)
    return known
  }

  /** Compiles files of the host, by their paths in the project. */
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

  /** A script's bytecode, the same for each machine of one byte order. Returns its file. */
  async bytecode({ name, script }: Bundle): Promise<string> {
    const file = this.at("bytecode")
    writeFileSync(this.at("script.js"), script)
    await run([this.#shared.scriptCompiler, this.at("script.js"), file, name])
    return file
  }

  /** Data in an executable, as host.h declares it: in its own section, its addresses in `tables`. */
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

  /** A heap image in the format of snapshot.c: of a file, or space for its first page. */
  image(file?: string): string {
    const content = file === undefined ? ".zero 4096" : `.incbin ${quoted(file)}`
    return this.assembly("image", `.section .image,"aw",@progbits\n.global image_section\nimage_section: ${content}`)
  }

  /**
   * A note, elf(5), that names the plugin which an executable is, for `pkg/invoke`. It has the same size in each
   * executable, and nothing after it moves.
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

  /** Assembly in its own file. */
  assembly(name: string, ...lines: string[]): string {
    writeFileSync(this.at(`${name}.S`), [...lines, `.section .note.GNU-stack,"",@progbits`, ""].join("\n"))
    return this.at(`${name}.S`)
  }

  /** Links an executable without symbols, except for one whose reports need them. */
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
   * Installs an executable in one step. Writes it again as a whole: a linker writes it in pieces, which lie in the page
   * cache in small folios, and each start takes more page faults.
   */
  finish(linked: string, out: string): void {
    writeFileSync(this.at("whole"), readFileSync(linked), { mode: 0o755 })
    renameSync(this.at("whole"), out)
  }
}

/**
 * Names the suite inside each of its executables, by a digest of their inputs. Executables with the same name have the
 * same sources, for each start mode and each plugin (`pkg/invoke` relies on that). `script` is the bundle of all
 * programs of the suite.
 */
function named(script: string, engine: readonly string[], { memory, flags, engineFlags }: Required<Flavour>): string {
  const sources = [...new Bun.Glob("*.[ch]").scanSync(hostDirectory)].sort().map((name) => join(hostDirectory, name))
  const made = [...sources, join(root, memory), ...engine].map((file) => readFileSync(file))
  return `-Wl,--build-id=0x${hashOf(...made, script, ...flags, ...engineFlags).slice(0, 40)}`
}
