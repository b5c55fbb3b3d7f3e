/**
 * The C library that executables are linked with: musl, Debian's package of it. For amd64 it is installed. Debian has no package
 * of it for a cross compiler, and to install that of arm64 would change which packages apt looks for: so that one is fetched,
 * pinned by a hash (`host/musl-arm64.txt`), and unpacked beside the objects of the engine.
 */
import { readFileSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { cacheDirectory, cached, hashOf, hostDirectory, muslCompiler, run, type Target } from "./engine.ts"

/** What a build needs of musl. */
export interface Musl {
  /** Compiles and links with it. */
  readonly compiler: string
  /** The directory of its libraries and of the objects that programs start from. */
  readonly libraries: string
  /** The file of its terms. */
  readonly terms: string
}

/** musl for a target, fetched when this machine has not got it yet. */
export async function muslOf({ name }: Target): Promise<Musl> {
  const root = name === "amd64" ? "/" : await fetched()
  return {
    compiler: name === "amd64" ? muslCompiler : join(root, "usr/bin/aarch64-linux-musl-gcc"),
    libraries: join(root, "usr/lib", name === "amd64" ? "x86_64-linux-musl" : "aarch64-linux-musl"),
    terms: join(root, "usr/share/doc/musl-dev/copyright"),
  }
}

/** Debian's package for arm64 as `host/musl-arm64.txt` pins it. */
export function pinnedMusl(): { url: string; version: string; sha256: string } {
  const pinned = readFileSync(join(hostDirectory, "musl-arm64.txt"), "utf8")
  const [, url = "", version = "", sha256 = ""] =
    /^(\S+\/musl-dev_([^_]+)_arm64\.deb) SHA256:([0-9a-f]{64})\n$/.exec(pinned) ?? []
  if (!url) throw new Error(`Cannot read "host/musl-arm64.txt": it is not "URL SHA256:HASH"`)
  return { url, version, sha256 }
}

/** The directory that the package is unpacked in; the two files of it that name their own places name those there. */
function fetched(): Promise<string> {
  const { url, sha256 } = pinnedMusl()
  const key = `musl-arm64-${hashOf(url, sha256, cacheDirectory).slice(0, 16)}`
  return cached(key, async (directory) => {
    console.error(`Fetching musl for arm64: ${url}`)
    const archive = join(directory, "package.deb")
    await run(["/usr/lib/apt/apt-helper", "download-file", url, archive, `SHA256:${sha256}`])
    await run(["dpkg-deb", "--extract", archive, directory])
    rmSync(archive)
    for (const file of ["usr/bin/aarch64-linux-musl-gcc", "usr/lib/aarch64-linux-musl/musl-gcc.specs"]) {
      const text = readFileSync(join(directory, file), "utf8")
      writeFileSync(join(directory, file), text.replaceAll("/usr/", `${join(cacheDirectory, key)}/usr/`))
    }
  })
}
