/**
 * Builds the plugins' executables by statically linking the engine (`engine.ts`), the native host (`host/`) and the
 * compiled TypeScript. Two builds have the same bytes, in every directory.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { basename, dirname, join } from "node:path"
import { bundle, type Program } from "./bundle.ts"
import { run, type Target } from "./engine.ts"
import { muslOf } from "./musl.ts"
import { listeners, pluginNames, programsOf, toolPrograms } from "./programs.ts"
import { requireSameAnswers, requireSameSections } from "./verify.ts"
import { type Flavour, Workshop } from "./workshop.ts"

export type { Flavour }

async function inScratch<T>(out: string, work: (scratch: string) => Promise<T>): Promise<T> {
  mkdirSync(dirname(out), { recursive: true })
  const scratch = mkdtempSync(join(dirname(out), `.${basename(out)}-`))
  try {
    return await work(scratch)
  } finally {
    rmSync(scratch, { recursive: true, force: true })
  }
}

/**
 * Returns the flags for a static, position-independent executable. `-static-pie` would not do: musl's compiler driver
 * ignores it, and the result would need a loader that nodes do not have.
 */
async function staticPieFlags(target: Target): Promise<string[]> {
  const { libraries } = await muslOf(target)
  const start = ["rcrt1.o", "crti.o", "crtn.o"].map((file) => join(libraries, file))
  return ["-static", "-nostartfiles", "-Wl,-pie,--no-dynamic-linker,-z,text", ...start]
}

/** The compiled programs as files, before linking. */
interface Compiled {
  readonly bytecode: string
  readonly positions: string
}

async function compile(shop: Workshop, programs: readonly Program[], name = "plugins"): Promise<Compiled> {
  const bundled = await bundle(name, programs)
  writeFileSync(shop.at("positions"), bundled.positions)
  return { bytecode: await shop.bytecode(bundled), positions: shop.at("positions") }
}

/** Links a position-independent executable that evaluates bytecode at each start. Returns its path. */
async function linkBytecode(shop: Workshop, compiled: Compiled, plugin?: string): Promise<string> {
  const blobs = shop.blobs(".data.rel.ro", { ...compiled })
  const objects = await shop.host("host/main.c", "host/door.c", shop.flavour.memory, "host/bytecode.c")
  const way = shop.isSanitized ? ["-pie"] : await staticPieFlags(shop.flavour.target)
  return shop.link("from-bytecode", [...objects, blobs, shop.note(plugin)], way)
}

/** The addresses of sections: below 2 GB, as position-dependent code requires, with space for each section to grow. */
const addresses = { image: "0x10000000", blobs: "0x20000000", code: "0x40000000" } as const

const fixedFlags = [
  "-static",
  "-no-pie",
  `-Wl,-Ttext-segment=${addresses.code}`,
  `-Wl,--section-start=.image=${addresses.image},--section-start=.blobs=${addresses.blobs}`,
  "-Wl,--wrap=gettimeofday",
]

/** Links an executable with fixed addresses. `image` is the file with the heap image, if it starts from one. */
async function linkFixed(
  shop: Workshop,
  { name, positions, image, plugin }: { name: string; positions: string; image?: string; plugin?: string | undefined },
): Promise<string> {
  const objects = await shop.host("host/main.c", "host/door.c", shop.flavour.memory, "host/snapshot.c", "host/maker.c")
  const data = [shop.blobs(".blobs", { positions }), shop.image(image), shop.note(plugin)]
  return shop.link(name, [...objects, ...data], fixedFlags)
}

/**
 * Links an executable with a heap image. Another executable, which evaluates the bytecode, writes the image. Throws
 * unless code and constants of both executables are the same, byte for byte. Returns the path.
 */
async function linkSnapshot(shop: Workshop, { bytecode, positions }: Compiled, program?: string): Promise<string> {
  writeFileSync(shop.at("nothing"), "")
  const maker = await shop.once("maker", () =>
    linkFixed(shop.room("maker"), { name: "maker", positions: shop.at("nothing") }),
  )
  writeFileSync(shop.at("heap"), await run([...shop.flavour.target.emulator, maker, bytecode]))
  const linked = await linkFixed(shop, { name: "from-snapshot", positions, image: shop.at("heap"), plugin: program })
  requireSameSections(maker, linked)
  return linked
}

/** The tool's flavor. Its host has promises and separate texts; its engine is about 7 % faster and 0.1 MB larger. */
export const toolFlavour: Flavour = { flags: ["-DTOOL"], engineFlags: ["-O3"] }

/** Builds the tool's executable, which behaves like `cnitool` under that name. */
export async function buildTool(out: string, flavour: Flavour = {}, start: Start = "snapshot"): Promise<void> {
  await inScratch(out, async (scratch) => {
    const flags = [...(toolFlavour.flags ?? []), ...(flavour.flags ?? [])]
    const shop = await Workshop.open(scratch, { ...toolFlavour, ...flavour, flags }, toolPrograms)
    const compiled = await compile(shop, toolPrograms, "tool")
    shop.finish(await (start === "bytecode" ? linkBytecode(shop, compiled) : linkSnapshot(shop, compiled)), out)
  })
}

/** How a plugin starts: from a heap image or from bytecode. */
export type Start = "snapshot" | "bytecode"

/** Links an executable and returns its path. Throws if a heap image and bytecode answer differently. */
async function link(shop: Workshop, start: Start, programs: readonly Program[]): Promise<string> {
  const compiled = await compile(shop, programs)
  if (start === "bytecode") return linkBytecode(shop, compiled, programs[0]?.name)
  const names = programs.map(({ name }) => name)
  const [name] = names
  const linked = await Promise.all([linkSnapshot(shop, compiled, name), linkBytecode(shop, compiled, name)])
  await requireSameAnswers(linked, names, shop.flavour.target.emulator, shop.at("verify"))
  return linked[0]
}

/** Builds one executable with several programs. The file name under which it is run selects the program. */
async function buildOne(start: Start, out: string, flavour: Flavour, programs: readonly Program[]): Promise<void> {
  await inScratch(out, async (scratch) => {
    const shop = await Workshop.open(scratch, flavour, programs)
    shop.finish(await link(shop, start, programs), out)
  })
}

/** Builds one executable with several programs, which starts from bytecode. */
export async function buildFromBytecode(out: string, flavour: Flavour, programs: readonly Program[]): Promise<void> {
  await buildOne("bytecode", out, flavour, programs)
}

/** Builds one executable with several programs, which starts from a heap image. */
export async function buildFromSnapshot(out: string, flavour: Flavour, programs: readonly Program[]): Promise<void> {
  await buildOne("snapshot", out, flavour, programs)
}

/**
 * Builds an executable for each plugin in a new directory, with the plugins that it runs in its own process
 * (`suite/plugins.ts`). Plugins that listen to the network always start from bytecode.
 */
export async function buildEach(
  directory: string,
  flavour: Flavour = {},
  start: Start = "snapshot",
  names: readonly string[] = pluginNames,
): Promise<void> {
  await inScratch(join(directory, "plugins"), async (scratch) => {
    const shop = await Workshop.open(scratch, flavour, await programsOf(...pluginNames))
    await Promise.all(
      names.map(async (name) => {
        const room = shop.room(name)
        const way = listeners.includes(name) ? "bytecode" : start
        room.finish(await link(room, way, await programsOf(name)), join(directory, name))
      }),
    )
  })
}
