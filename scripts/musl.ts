/**
 * Provides the C library of executables, Debian's package of musl. The package for amd64 is installed. Debian has no
 * musl for a cross compiler, and installing the package for arm64 would add an architecture to apt. So the package for
 * arm64 is fetched, checked against a pinned hash (`host/musl-arm64.txt`), and unpacked into the build's cache. A
 * packager's own compiler (`CNI_CC_AMD64`, `CNI_CC_ARM64`) brings its own C library.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { cacheDirectory, cached, hashOf, muslCompiler, run, type Target } from "./engine.ts"
import { fetchMusl, findVendored, pinnedMusl } from "./sources.ts"

export interface Musl {
  readonly compiler: string
  readonly libraries: string
  readonly terms: string
  /** Whether the packager chose the compiler. */
  readonly isOwn: boolean
}

const ownCompiler = ({ name }: Target) => process.env[`CNI_CC_${name.toUpperCase()}`] || undefined

/** Returns musl for a target. If this machine does not have it, fetches it. */
export async function muslOf(target: Target): Promise<Musl> {
  const own = ownCompiler(target)
  const root = own || target.name === "amd64" ? "/" : await fetched()
  const compiler = own ?? (target.name === "amd64" ? muslCompiler : join(root, "usr/bin/aarch64-linux-musl-gcc"))
  const terms = process.env.CNI_MUSL_TERMS || join(root, "usr/share/doc/musl-dev/copyright")
  return { compiler, libraries: await librariesOf(compiler), terms, isOwn: own !== undefined }
}

const known = new Map<string, Promise<string>>()

/** Returns the directory of the C library that a compiler links. Throws if that library is not musl. */
function librariesOf(compiler: string): Promise<string> {
  const found = known.get(compiler) ?? findLibraries(compiler)
  known.set(compiler, found)
  return found
}

async function findLibraries(compiler: string): Promise<string> {
  const scratch = mkdtempSync(join(tmpdir(), "cni-musl-"))
  try {
    writeFileSync(join(scratch, "empty.c"), "int main(void) { return 0; }\n")
    const link = [compiler, "-static", "-Wl,--trace", "-o", join(scratch, "empty"), join(scratch, "empty.c")]
    const traced = Buffer.from(await run(link)).toString()
    const library = /^\(?(\/.*\/libc\.a)/m.exec(traced)?.[1]
    if (library === undefined) throw new Error(`Cannot tell which C library "${compiler}" links with:\n${traced}`)
    if (!readFileSync(library, "latin1").includes("__init_libc"))
      // glibc has no function of this name
      throw new Error(`Cannot build with "${compiler}": "${library}" is not musl`)
    return dirname(library)
  } finally {
    rmSync(scratch, { recursive: true })
  }
}

/**
 * Returns the directory of the unpacked package. Its two files with absolute paths are rewritten for that directory.
 */
function fetched(): Promise<string> {
  const pinned = pinnedMusl()
  const vendored = findVendored(pinned)
  const key = `musl-arm64-${hashOf(pinned.sha256, cacheDirectory).slice(0, 16)}`
  return cached(key, async (directory) => {
    const download = join(directory, "download")
    await run(["dpkg-deb", "--extract", vendored ?? (await fetchMusl(download)), directory])
    rmSync(download, { recursive: true, force: true })
    for (const file of ["usr/bin/aarch64-linux-musl-gcc", "usr/lib/aarch64-linux-musl/musl-gcc.specs"]) {
      const text = readFileSync(join(directory, file), "utf8")
      writeFileSync(join(directory, file), text.replaceAll("/usr/", `${join(cacheDirectory, key)}/usr/`))
    }
  })
}
