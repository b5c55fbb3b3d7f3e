/**
 * Creates the NOTICE of a release, which lists the works of others inside its executables: the engine, npm packages and
 * the C library. Their licenses are read from the sources that are linked.
 */
import { existsSync, readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import type { Bundle } from "./bundle.ts"
import { engineSource, root, type Target } from "./engine.ts"
import { muslOf } from "./musl.ts"

/** A work of others inside an executable. `terms` is the license's text, if the license requires passing it on. */
interface Work {
  readonly name: string
  readonly licence: string
  readonly what: string
  readonly terms?: string
}

/** Parts of the compiler, and the reason why their license need not be passed on. */
const compilers: readonly Work[] = [
  {
    name: "GCC",
    licence: "GPL 3 with the GCC Runtime Library Exception 3.1",
    what: "the start files, and for arm64 functions of libgcc. The exception allows executables to be handed on under any terms",
  },
  {
    name: "GCC's soft-fp",
    licence: "LGPL 2.1 with an exception for linking",
    what: "for arm64 libgcc's arithmetic of `long double`. The exception sets no condition for what is linked: neither this license's text nor sources or objects are owed",
  },
]

/** Returns the text of NOTICE. `bundles` are the scripts in the executables. */
export async function notice(target: Target, bundles: readonly Bundle[]): Promise<string> {
  const works = [...(await engineWorks()), await musl(target), ...npmPackagesOf(bundles).map(npmWork), ...compilers]
  const list = works.map(({ name, licence, what }) => `  ${name} (${licence}): ${what}.`)
  const terms = works.flatMap(({ name, terms }) => (terms ? [`---- ${name} ----\n\n${terms.trim()}\n`] : []))
  return [
    "cni-plugins is under the Apache License, version 2.0: see the file LICENSE.",
    "These works of others are inside its executables:\n",
    `${list.join("\n\n")}\n`,
    "The C library is musl on every machine: nothing of glibc is inside. The terms follow.\n",
    ...terms,
  ].join("\n")
}

/** Returns the first comment of a C file. */
const headOf = (file: string) =>
  (/\/\*\n(.*?)\*\//s.exec(readFileSync(file, "utf8"))?.[1] ?? "").replace(/^ ?\* ?/gm, "")

/**
 * Returns the engine and its Unicode tables as works. Throws if a file does not have its license where it is expected.
 */
async function engineWorks(): Promise<Work[]> {
  const source = await engineSource()
  const heads = readdirSync(source)
    .filter((name) => /\.[ch]$/.test(name))
    .map((name) => headOf(join(source, name)))
  const granted = headOf(join(source, "quickjs.c"))
  const from = granted.indexOf("Permission is hereby granted")
  const unicode = headOf(join(source, "libunicode-table.h"))
  if (from < 0 || !unicode.startsWith("UNICODE LICENSE")) throw new Error("Cannot tell the terms of the engine")
  const owners = new Set(heads.flatMap((head) => head.match(/^Copyright \(c\) .*$/gm) ?? []))
  const terms = `${[...owners].sort().join("\n")}\n\n${granted.slice(from)}`
  return [
    { name: "QuickJS-ng", licence: "MIT", what: "the engine", terms },
    { name: "Unicode", licence: "Unicode License V3", what: "the engine's tables of characters", terms: unicode },
  ]
}

async function musl(target: Target): Promise<Work> {
  const { terms } = await muslOf(target)
  if (!existsSync(terms))
    throw new Error(`Cannot tell the terms of the C library: "${terms}" is missing; name it by CNI_MUSL_TERMS`)
  return { name: "musl", licence: "MIT", what: "the C library", terms: readFileSync(terms, "utf8") }
}

export function npmPackagesOf(bundles: readonly Bundle[]): string[] {
  const sources = bundles.flatMap(({ positions }) => (positions.split("\n")[1] ?? "").split(","))
  const names = sources.map((source) => /^node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(source)?.[1])
  return [...new Set(names.flatMap((name) => (name === undefined ? [] : [name])))].sort()
}

function npmWork(name: string): Work {
  const directory = join(root, "node_modules", name)
  const { license } = JSON.parse(readFileSync(join(directory, "package.json"), "utf8"))
  const file = readdirSync(directory).find((file) => /^licen[cs]e(\.\w+)?$/i.test(file))
  if (file === undefined) throw new Error(`Cannot tell the terms of npm's package "${name}": it has no file LICENSE`)
  const terms = readFileSync(join(directory, file), "utf8")
  return { name, licence: license, what: "npm's package, compiled in", terms }
}
