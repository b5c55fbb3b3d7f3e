import { findVersion, isOfThisSuite, type Manifest } from "../../install/mod.ts"
import { encodeUtf8 } from "../../pkg/engine/mod.ts"
import { pluginPath, readVersions } from "../../pkg/invoke/mod.ts"
import { exists, isErrno, spawn } from "../../pkg/libc/mod.ts"
import { isCniError, newestVersion } from "../../pkg/types/mod.ts"

/** The timeout for a plugin's answer to VERSION. A plugin that does not answer in time counts as broken. */
const PATIENCE_MS = 10_000
const OUTPUT_LIMIT = 64 << 10

/** Reports whether a file is a plugin of this suite. */
export function isOurs(file: string): boolean {
  return exists(file) && isOfThisSuite(findVersion(file))
}

/** The plugins that a directory would contain without this suite. Caches the result for each plugin. */
export class OtherSuite {
  readonly #binDir: string
  readonly #files: Manifest["files"]
  readonly #versions = new Map<string, readonly string[] | undefined>()
  readonly #paths = new Map<string, string | undefined>()

  /** `files` are the files that this suite installed into the directory. */
  constructor(binDir: string, files: Manifest["files"]) {
    this.#binDir = binDir
    this.#files = files
  }

  has(type: string): boolean {
    return this.#pathOf(type) !== undefined
  }

  /**
   * Reports whether an existing plugin supports a version of the specification. A plugin that does not answer counts as
   * supporting all versions: its DEL will report errors.
   */
  speaks(type: string, version: string): boolean {
    const path = this.#pathOf(type)
    if (path === undefined) return false
    return this.#versions.getOrInsertComputed(type, () => findSpoken(path))?.includes(version) ?? true
  }

  /** Returns the file's path, or undefined if it is missing. */
  #pathOf(type: string): string | undefined {
    return this.#paths.getOrInsertComputed(type, () => {
      const placed = Object.hasOwn(this.#files, type) ? this.#files[type] : undefined
      if (placed) return placed.displaced && pluginPath(`${this.#binDir}/.cni-install/displaced`, type)
      const path = pluginPath(this.#binDir, type)
      return exists(path) && !isOurs(path) ? path : undefined
    })
  }
}

/** Returns the versions that a plugin supports, as its VERSION lists them. Returns undefined if it does not answer. */
function findSpoken(path: string): readonly string[] | undefined {
  const env = { CNI_COMMAND: "VERSION" }
  const stdin = encodeUtf8(JSON.stringify({ cniVersion: newestVersion }))
  try {
    return readVersions(spawn({ path, env, stdin, timeoutMs: PATIENCE_MS, outputLimit: OUTPUT_LIMIT }).stdout)
  } catch (error) {
    if (isErrno(error) || isCniError(error)) return undefined
    throw error
  }
}
