/**
 * Installs the npm packages from a vendored directory, without a network: `node scripts/vendored.js DIRECTORY`. It is run by Node, since Bun
 * is one of them. Each archive has to be the one that package-lock.json pins; npm does the rest.
 */
import { spawnSync } from "node:child_process"
import { createHash } from "node:crypto"
import { copyFileSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs"
import { dirname, join, resolve } from "node:path"
import { fileURLToPath } from "node:url"

const root = join(dirname(fileURLToPath(import.meta.url)), "..")
const libc = process.report.getReport().header.glibcVersionRuntime ? "glibc" : "musl"

/** Whether npm installs a package on this machine. */
const isForThisMachine = ({ os, cpu, libc: its }) =>
  (os?.includes(process.platform) ?? true) && (cpu?.includes(process.arch) ?? true) && (its?.includes(libc) ?? true)

/** The archive of a package, as `npm pack` names it. */
export function archiveOf(path, { version }) {
  const name = path.slice(path.lastIndexOf("node_modules/") + "node_modules/".length)
  return `npm/${name.replace("@", "").replace("/", "-")}-${version}.tgz`
}

/** The packages of a lock file that this machine gets: the path of each in the project, and what is known of it. */
export function packagesOf(lock) {
  return Object.entries(lock.packages).filter(([path, known]) => path !== "" && isForThisMachine(known))
}

/** Throws when a vendored directory lacks the archive of a package, or has other bytes than the lock file pins. */
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

/** Installs the packages into node_modules, whole or not at all. */
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
