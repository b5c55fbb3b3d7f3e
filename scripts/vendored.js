/**
 * Installs the npm packages from a vendored directory, without a network: `node scripts/vendored.js DIRECTORY`. It runs
 * on Node, because Bun is one of the packages. Each archive must have the hash in package-lock.json; npm installs it.
 */
import { spawnSync } from "node:child_process"
import { createHash } from "node:crypto"
import { copyFileSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs"
import { dirname, join, resolve } from "node:path"
import { fileURLToPath } from "node:url"

const root = join(dirname(fileURLToPath(import.meta.url)), "..")
const libc = process.report.getReport().header.glibcVersionRuntime ? "glibc" : "musl"

/** Reports whether npm installs a package on this machine. */
const isForThisMachine = ({ os, cpu, libc: its }) =>
  (os?.includes(process.platform) ?? true) && (cpu?.includes(process.arch) ?? true) && (its?.includes(libc) ?? true)

/** Returns the name of a package's archive, as given by `npm pack`. */
export function archiveOf(path, { version }) {
  const name = path.slice(path.lastIndexOf("node_modules/") + "node_modules/".length)
  return `npm/${name.replace("@", "").replace("/", "-")}-${version}.tgz`
}

/** Returns the packages of a lock file that this machine needs: each package's path in the project, and its data. */
export function packagesOf(lock) {
  return Object.entries(lock.packages).filter(([path, known]) => path !== "" && isForThisMachine(known))
}

/**
 * Throws if the archive of a package is missing in a vendored directory, or does not have the hash in the lock file.
 */
export function checkArchive(directory, path, known) {
  const archive = archiveOf(path, known)
  const refuse = (reason) => new Error(`Cannot build from "${directory}": "${archive}"${reason}`)
  let bytes
  try {
    bytes = readFileSync(join(directory, archive))
  } catch (cause) {
    throw refuse(`, which package-lock.json pins, is missing or cannot be read: ${cause.message}`)
  }
  if (`sha512-${createHash("sha512").update(bytes).digest("base64")}` !== known.integrity)
    throw refuse(" is not the file that package-lock.json pins")
}

/** Installs the packages into node_modules. After a failure node_modules is unchanged. */
function install(directory) {
  const lock = JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8"))
  for (const [path, known] of packagesOf(lock)) {
    checkArchive(directory, path, known)
    known.resolved = `file:${join(directory, archiveOf(path, known))}`
  }
  const scratch = mkdtempSync(join(root, ".vendored-"))
  try {
    copyFileSync(join(root, "package.json"), join(scratch, "package.json"))
    writeFileSync(join(scratch, "package-lock.json"), JSON.stringify(lock))
    const plain = ["--no-save", "--no-audit", "--no-fund", "--loglevel=error", "--cache", join(scratch, "cache")]
    const { status } = spawnSync("npm", ["install", "--offline", ...plain], { cwd: scratch, stdio: "inherit" })
    if (status !== 0) throw new Error(`Cannot install the npm packages from "${directory}": npm failed`)
    rmSync(join(root, "node_modules"), { recursive: true, force: true })
    renameSync(join(scratch, "node_modules"), join(root, "node_modules"))
  } finally {
    rmSync(scratch, { recursive: true })
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  try {
    install(resolve(process.argv[2] ?? ""))
  } catch (error) {
    console.error(error.message)
    process.exitCode = 1
  }
}
