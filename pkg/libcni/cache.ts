import { decodeBase64, decodeUtf8, encodeUtf8 } from "../engine/mod.ts"
import {
  type ErrnoName,
  FileDescriptor,
  findFile,
  isErrno,
  join,
  makeDirectories,
  Open,
  readDirectory,
  rename,
  sync,
  syncPath,
  tryUnlink,
  unlessErrno,
  writeAll,
} from "../libc/mod.ts"
import { requireOwn } from "../records/mod.ts"
import {
  CniError,
  Code,
  isCniError,
  type JsonObject,
  parseJsonObject,
  stringifyJson,
  validateContainerId,
  validateInterfaceName,
  validateNetworkName,
} from "../types/mod.ts"
import { type CachedAttachment, type CacheState, cacheKind, decodeCached, encodeCached } from "./cached.ts"
import { requireText } from "./input.ts"
import type { AttachmentId, Network } from "./network.ts"

/**
 * Returns the cache key of an attachment. Checks all three names, because they become parts of a path. Throws code 3 or
 * 4 for the container ID, 7 for the network's name, and 4 for the interface's name.
 */
export function cacheKey(network: Network, { containerId, ifName }: AttachmentId): CacheKey {
  validateContainerId(containerId)
  validateNetworkName(network.name)
  validateInterfaceName(ifName)
  return { network: network.name, containerId, ifName }
}

export function describeAttachment(network: Network, { containerId, ifName }: AttachmentId): string {
  return `interface "${ifName}" of container "${containerId}" in network "${network.name}"`
}

/** The three names that an attachment's file name consists of. */
export interface CacheKey {
  readonly network: string
  readonly containerId: string
  readonly ifName: string
}

/** Returns `CACHEDIR/results/NETWORK-CONTAINERID-IFNAME`. Throws code 4 if one of the three names is empty. */
export function cacheFile(cacheDir: string, key: CacheKey): string {
  requireText("cacheDir", cacheDir)
  const { network, containerId, ifName } = key
  for (const [name, text] of Object.entries({ network, containerId, ifName })) requireText(`key.${name}`, text)
  if (network === "" || containerId === "" || ifName === "") {
    throw new CniError(
      Code.InvalidEnvironment,
      `cache file path requires network name (${JSON.stringify(network)}), container ID (${JSON.stringify(containerId)}), ` +
        `and interface name (${JSON.stringify(ifName)})`,
    )
  }
  return join(cacheDir, "results", `${network}-${containerId}-${ifName}`)
}

/** Reads the cache file of an attachment. */
export function readCache(cacheDir: string, key: CacheKey): CacheState {
  const file = cacheFile(cacheDir, key)
  let text: string | undefined
  try {
    requireOwn(cacheDir, "results")
    text = textOf(file, "ENOTDIR")
  } catch (cause) {
    if (isCniError(cause)) return { state: "unreadable", error: cause }
    return { state: "unreadable", error: new CniError(Code.Io, `Cannot read cache file "${file}"`, { cause }) }
  }
  if (text === undefined) return { state: "absent" }
  const value = tryParse(text)
  if (value === undefined) return { state: "invalid", reason: `"${file}" does not hold a JSON object` }
  if (value.kind !== cacheKind) return { state: "legacy", result: value }
  const attachment = decodeCached(value)
  if (attachment === undefined) return { state: "invalid", reason: `"${file}" lacks the names of its attachment` }
  const same =
    attachment.network === key.network && attachment.containerId === key.containerId && attachment.ifName === key.ifName
  if (same) return { state: "valid", attachment }
  const { network, containerId, ifName } = attachment
  return { state: "foreign", owner: `network "${network}", container "${containerId}", interface "${ifName}"` }
}

/** An open cache file that does not have its final name yet. */
export interface PendingCache extends Disposable {
  /** Writes the attachment to disk under the final name. Throws code 5. */
  commit(attachment: CachedAttachment): void
}

/**
 * Opens the cache file of an attachment for writing, to detect a read-only or full file system before a plugin runs.
 * Throws code 5, also if other users can change the cache.
 */
export function openCache(cacheDir: string, key: CacheKey): PendingCache {
  const file = cacheFile(cacheDir, key)
  const temporary = join(cacheDir, `.${key.network}-${key.containerId}-${key.ifName}.tmp`)
  const failed = (cause: unknown) => new CniError(Code.Io, `Cannot write cache file "${file}"`, { cause })
  let opened: FileDescriptor
  requireOwn(cacheDir, "results")
  try {
    makeDirectories(join(cacheDir, "results"), 0o700)
    requireOwn(cacheDir, "results") // another process may have created it in between
    opened = FileDescriptor.open(temporary, Open.WriteOnly | Open.Create | Open.Truncate, 0o600)
  } catch (cause) {
    throw failed(cause)
  }
  return {
    commit(attachment) {
      try {
        writeAll(opened.fd, encodeUtf8(stringifyJson(encodeCached(attachment))))
        sync(opened.fd)
        rename(temporary, file)
        syncPath(join(cacheDir, "results"))
      } catch (cause) {
        throw failed(cause)
      }
    },
    [Symbol.dispose]() {
      opened[Symbol.dispose]()
      tryUnlink(temporary)
    },
  }
}

/** Removes the cache file of an attachment. A missing file is not an error. Throws code 5. */
export function removeCache(cacheDir: string, key: CacheKey): void {
  const file = cacheFile(cacheDir, key)
  requireOwn(cacheDir, "results")
  try {
    unlessErrno(() => tryUnlink(file), "ENOTDIR")
  } catch (cause) {
    throw new CniError(Code.Io, `Cannot remove cache file "${file}"`, { cause })
  }
}

/**
 * Returns all cached attachments, or those of one container, in the order of their file names. Skips other files.
 * `passOver` gets the paths of files that contain no JSON object. With `pick`, returns the result of `pick` for each
 * attachment and its file. Attachments with the same configuration share its bytes. Throws code 5 if the directory or a
 * file in it cannot be read, because an incomplete list would be dangerous.
 */
export function cachedAttachments<T = CachedAttachment>(
  cacheDir: string,
  containerId?: string,
  passOver: (file: string) => void = () => {},
  pick: (attachment: CachedAttachment, file: string) => T = (attachment) => attachment as T,
): T[] {
  requireText("cacheDir", cacheDir)
  requireOwn(cacheDir, "results")
  const configs = new Map<string, ReturnType<typeof decodeBase64>>()
  const decodeConfig = (text: string) => {
    if (!configs.has(text)) configs.set(text, decodeBase64(text))
    return configs.get(text)
  }
  const directory = join(cacheDir, "results")
  return listDirectory(directory)
    .sort((a, b) => (a < b ? -1 : 1))
    .flatMap((name) => {
      const file = `${directory}/${name}`
      const value = readValue(file)
      if (value === undefined) passOver(file)
      const attachment = value?.kind === cacheKind ? decodeCached(value, decodeConfig) : undefined
      if (attachment === undefined) return []
      return containerId === undefined || attachment.containerId === containerId ? [pick(attachment, file)] : []
    })
}

function listDirectory(directory: string): string[] {
  try {
    return readDirectory(directory)
  } catch (cause) {
    if (isErrno(cause, "ENOENT")) return []
    throw new CniError(Code.Io, `Cannot list the cached attachments in "${directory}"`, { cause })
  }
}

function tryParse(text: string): JsonObject | undefined {
  try {
    return parseJsonObject(text, "cache file")
  } catch {
    return undefined
  }
}

/** Returns the JSON object in a file of the directory. Throws code 5. */
function readValue(file: string): JsonObject | undefined {
  try {
    const text = textOf(file, "EISDIR", "EINVAL", "ENXIO") // a directory, FIFO or socket is not a record
    return text === undefined ? undefined : tryParse(text)
  } catch (cause) {
    throw new CniError(Code.Io, `Cannot read cache file "${file}"`, { cause })
  }
}

/** Returns the text of a file. Returns `undefined` if the file does not exist, and for the errors in `alsoNone`. */
function textOf(file: string, ...alsoNone: ErrnoName[]): string | undefined {
  const bytes = unlessErrno(() => findFile(file), ...alsoNone)
  return bytes && decodeUtf8(bytes)
}
