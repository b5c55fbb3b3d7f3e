/** Runs programs, and keeps the results of builds in the user's cache directory, keyed by their inputs. */
import { createHash } from "node:crypto"
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from "node:fs"
import { homedir } from "node:os"
import { join } from "node:path"
import { execa } from "execa"

export const root = join(import.meta.dir, "..")
export const hostDirectory = join(root, "host")
export const cacheDirectory = join(process.env.XDG_CACHE_HOME || join(homedir(), ".cache"), "cni-plugins")

/** Runs a program in the project's directory. Returns its stdout. If it fails, throws an error with its stderr. */
export async function run(
  command: readonly string[],
  options: { env?: Readonly<Record<string, string>> } = {},
): Promise<Uint8Array> {
  const [file = "", ...args] = command
  const result = await execa(file, args, {
    cwd: root,
    encoding: "buffer",
    stripFinalNewline: false,
    reject: false,
    ...options,
  })
  if (result.exitCode === 0) return result.stdout
  if (result.code === "ENOENT")
    throw new Error(`There is no program "${file}": run scripts/setup.sh, or for arm64 scripts/setup.sh arm64`)
  const said = Buffer.from(result.stderr ?? "").toString() || result.shortMessage
  throw new Error(`"${command.join(" ")}" failed:\n${said}`)
}

/** Returns the SHA-256 of a list in hexadecimal digits. */
export function hashOf(...parts: (string | Uint8Array)[]): string {
  const hash = createHash("sha256")
  for (const part of parts) hash.update(part).update("\0")
  return hash.digest("hex")
}

/** The cache directories that this process has requested, by key, so that concurrent builds compile the engine once. */
const asked = new Map<string, Promise<string>>()

/** Returns a directory of the cache. If the directory does not exist, `make` fills it. */
export function cached(key: string, make: (directory: string) => Promise<void>): Promise<string> {
  const known = asked.get(key) ?? makeCached(key, make)
  asked.set(key, known)
  return known
}

/** Creates a directory of the cache atomically, even if other processes create the same one. */
async function makeCached(key: string, make: (directory: string) => Promise<void>): Promise<string> {
  const directory = join(cacheDirectory, key)
  if (existsSync(directory)) return directory
  mkdirSync(cacheDirectory, { recursive: true })
  const scratch = mkdtempSync(join(cacheDirectory, ".new-"))
  try {
    await make(scratch)
    try {
      renameSync(scratch, directory)
    } catch (error) {
      if (!existsSync(directory)) throw error
    }
  } finally {
    rmSync(scratch, { recursive: true, force: true })
  }
  return directory
}
