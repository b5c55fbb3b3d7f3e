/** Collects the agent's files in the image: an executable, and glibc for Bun, the only library in the image. */
import { createHash } from "node:crypto"
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { compileAgent } from "../build.ts"
import { cached, root, run, type Target } from "../engine.ts"
import { textFile } from "./place.ts"
import type { PlacedFile } from "./stage.ts"

/** The sources of glibc's files: the compiler to which they belong, and the loader, whose path is in the executable. */
const glibc = {
  amd64: { compiler: "gcc", loader: "lib64/ld-linux-x86-64.so.2" },
  arm64: { compiler: "aarch64-linux-gnu-gcc", loader: "lib/ld-linux-aarch64.so.1" },
} as const

/** The libraries that Bun's executable needs besides the loader, as `readelf --dynamic` lists them. */
const libraries = ["libc.so.6", "libdl.so.2", "libm.so.6", "libpthread.so.0"]

/** Returns the files of the agent for a machine, with the licenses of its parts. */
export async function agentFiles(target: Target): Promise<PlacedFile[]> {
  const scratch = mkdtempSync(join(tmpdir(), "cni-agent-"))
  try {
    const executable = join(scratch, "cni-agent")
    await compileAgent(executable, target.name === "amd64" ? undefined : await bunFor(target))
    const files = await libraryFiles(target)
    const agent = { path: "usr/local/bin/cni-agent", mode: 0o755, bytes: readFileSync(executable) }
    return [agent, ...files, textFile("NOTICE.cni-agent", termsOf(files))]
  } finally {
    rmSync(scratch, { recursive: true, force: true })
  }
}

export async function libraryFiles(target: Target): Promise<PlacedFile[]> {
  const { compiler, loader } = glibc[target.name]
  const find = async (path: string): Promise<PlacedFile> => {
    const found = await run([compiler, `-print-file-name=${path.replace(/^.*\//, "")}`])
    return { path, mode: 0o755, bytes: readFileSync(Buffer.from(found).toString().trim()) }
  }
  return await Promise.all([loader, ...libraries.map((name) => `lib/${name}`)].map(find))
}

/** Returns the path of Bun for another machine, from npm's package as pinned in package-lock.json. */
async function bunFor(target: Target): Promise<string> {
  const name = `@oven/bun-linux-${target.name === "arm64" ? "aarch64" : "x64"}`
  const lock = JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8"))
  const { version, integrity } = lock.packages[`node_modules/${name}`]
  const directory = await cached(`bun-${target.name}-${version}`, async (into) => {
    console.error(`Fetching Bun for ${target.name}: ${name}@${version}`)
    await run(["npm", "pack", "--silent", "--pack-destination", into, `${name}@${version}`])
    const archive = join(into, readdirSync(into)[0] ?? "")
    const digest = createHash("sha512").update(readFileSync(archive)).digest("base64")
    if (`sha512-${digest}` !== integrity)
      throw new Error(`Cannot use ${name}@${version}: it is not the file that package-lock.json pins`)
    await run(["tar", "--extract", "--file", archive, "--directory", into, "package/bin/bun"])
    rmSync(archive)
  })
  return join(directory, "package/bin/bun")
}

function termsOf(files: readonly PlacedFile[]): string {
  const library = files.find(({ path }) => path === "lib/libc.so.6")?.bytes ?? new Uint8Array()
  const [version] = /GNU C Library \([^)]*\)/.exec(Buffer.from(library).toString("latin1")) ?? []
  if (version === undefined) throw new Error("Cannot tell the version of the C library")
  return `These works of others are in this image for /usr/local/bin/cni-agent, beside those that the file NOTICE names:

  Bun ${Bun.version} (MIT; JavaScriptCore inside it LGPL 2.1): the runtime. Its sources are at
  https://github.com/oven-sh/bun/tree/bun-v${Bun.version}, and the terms of its parts at https://bun.com/docs/project/license

  ${version} (LGPL 2.1): the C library, in /lib and /lib64, as Debian has built it; its sources are Debian's
  source package glibc, at https://sources.debian.org/src/glibc/. Its terms follow.

${readFileSync("/usr/share/doc/libc6/copyright", "utf8").trim()}
`
}
