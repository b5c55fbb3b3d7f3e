/**
 * Downloads into a directory everything that a build fetches from package registries, for a build without a network:
 *
 *   npm run vendor DIR
 *   CNI_VENDOR=DIR npm run archives
 *
 * These are the npm packages, including Bun, the engine's source archive, and Debian's package of musl for arm64.
 * `SHA256SUMS` lists the files. `packages.txt` lists the Debian packages that a packager's own system must supply. See
 * docs/develop/releasing.md.
 */
import { createHash } from "node:crypto"
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs"
import { basename, dirname, join, resolve } from "node:path"
import { root, run } from "./cache.ts"
import { fetchEngine, fetchMusl, pinnedEngine, pinnedMusl, requireVendored } from "./sources.ts"
import { checkArchive, packagesOf } from "./vendored.js"

/** The Debian packages whose programs a build runs. The second list is only for arm64. */
const suppliers = [
  ["gcc", "gcc-12", "binutils", "musl-tools", "musl-dev", "patch", "tar", "dpkg"],
  ["gcc-aarch64-linux-gnu", "gcc-12-aarch64-linux-gnu", "binutils-aarch64-linux-gnu", "qemu-user"],
] as const

/** Fills a directory atomically. Throws if the directory has files but no `SHA256SUMS`. */
export async function vendor(directory: string): Promise<void> {
  if (existsSync(directory) && readdirSync(directory).length > 0 && !existsSync(join(directory, "SHA256SUMS")))
    throw new Error(`Cannot vendor into "${directory}": it has other files, and no SHA256SUMS`)
  mkdirSync(dirname(directory), { recursive: true })
  const scratch = mkdtempSync(join(dirname(directory), `.${basename(directory)}-`))
  try {
    await fetchPackages(scratch)
    for (const [pinned, fetch] of [[pinnedEngine(), fetchEngine] as const, [pinnedMusl(), fetchMusl] as const]) {
      await fetch(join(scratch, dirname(pinned.vendored)))
      requireVendored(scratch, pinned)
    }
    writeFileSync(join(scratch, "packages.txt"), await supplied())
    writeFileSync(join(scratch, "SHA256SUMS"), sumsOf(scratch))
    chmodSync(scratch, 0o755)
    rmSync(directory, { recursive: true, force: true })
    renameSync(scratch, directory)
  } finally {
    rmSync(scratch, { recursive: true, force: true })
  }
}

/** Fetches the archives of the npm packages that this machine needs, and compares each with the lock file. */
async function fetchPackages(directory: string): Promise<void> {
  const packages = packagesOf(JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8")))
  console.error(`Fetching ${packages.length} npm packages`)
  const into = join(directory, "npm")
  mkdirSync(into)
  const names = packages.map(([path, { version }]) => `${path.replace(/^.*node_modules\//, "")}@${version}`)
  await run(["npm", "pack", "--silent", "--prefer-offline", "--pack-destination", into, ...new Set(names)])
  for (const [path, known] of packages) checkArchive(directory, path, known)
}

/** Returns the list of packages that the system supplies, with this system's versions. */
async function supplied(): Promise<string> {
  const [all, arm64] = await Promise.all(suppliers.map((names) => Promise.all(names.map(describePackage))))
  return [
    "The build takes these Debian packages from the system that it runs on; they are not in this directory.",
    "The same versions give the same bytes. Node 20 or newer and npm have to be there, too.",
    "",
    ...(all ?? []),
    "",
    "For arm64 also:",
    "",
    ...(arm64 ?? []),
    "",
  ].join("\n")
}

async function describePackage(name: string): Promise<string> {
  const shown = await run(["dpkg-query", "--show", name]).catch(() => Buffer.of())
  return `${name} ${Buffer.from(shown).toString().trim().split("\t")[1] || "(not installed here)"}`
}

/** Returns the sums of all files in the format of `sha256sum --check`. */
function sumsOf(directory: string): string {
  const files = readdirSync(directory, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile())
  const paths = files.map((entry) => join(entry.parentPath, entry.name).slice(directory.length + 1)).sort()
  const sum = (path: string) =>
    createHash("sha256")
      .update(readFileSync(join(directory, path)))
      .digest("hex")
  return paths.map((path) => `${sum(path)}  ${path}\n`).join("")
}

if (import.meta.main) {
  const [directory, ...rest] = process.argv.slice(2)
  if (!directory || rest.length > 0) {
    console.error("Usage: npm run vendor DIRECTORY")
    process.exit(2)
  }
  // npm changes to the project's directory, but a relative path refers to the directory of the caller.
  const path = resolve(process.env.INIT_CWD ?? process.cwd(), directory)
  await vendor(path)
  console.log(`Vendored into ${path}; build from it with CNI_VENDOR=${path}`)
}
