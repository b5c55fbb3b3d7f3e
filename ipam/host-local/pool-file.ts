import { crc32, decodeUtf8, sha256 } from "../../pkg/engine/mod.ts"
import { findFile, SyscallError } from "../../pkg/libc/mod.ts"
import { requireOwn } from "../../pkg/records/mod.ts"
import { CniError, Code, parseCidr, type Route } from "../../pkg/types/mod.ts"

/** The directory of the pools' files, where a configuration names no other. */
export const defaultPoolDir = "/var/lib/cni/pools"

/** The version of the file's format that this release reads. */
const VERSION = 1

/** In bytes. 1,000 blocks, and 31,000 pods with fixed addresses on other nodes, take 0.6 MB. */
const POOL_FILE_MAX = 1 << 20

/**
 * The blocks of one family that a node owns. All have the same prefix length, so that an address determines its block.
 */
export interface PoolSet {
  /** The prefix of the whole pool: "10.64.0.0/16", "fd00:64::/48". */
  readonly prefix: string
  /** The gateway of a link that all nodes share. Without it each block is a subnet of its own, and its first address is the gateway. */
  readonly gateway?: string
  /** The prefix length of every block. */
  readonly blockLength: number
  /** The blocks that addresses are handed out of, by their canonical prefixes: "10.64.3.0/26". */
  readonly blocks: readonly string[]
  /** The blocks that the node gives back: a container keeps its address there, and no container gets a new one. */
  readonly draining: readonly string[]
  /** Addresses in the blocks that are never handed out. */
  readonly reserved: readonly string[]
}

/** The part of a pool that one node owns. */
export interface PoolFile {
  readonly version: typeof VERSION
  readonly pool: string
  /** Incremented each time the node has lost its blocks and starts again. */
  readonly epoch: number
  /** The node that owns the blocks. `machineId` is that of machine-id(5), "" when the file does not exist. */
  readonly node: { readonly name: string; readonly uid: string; readonly machineId: string }
  /** The directory of the reservations of the one network that uses the pool: "/var/lib/cni/networks/pods-net". */
  readonly store: string
  /** One for each family: a container gets an address of each. */
  readonly sets: readonly PoolSet[]
  /** The routes of results. */
  readonly routes: readonly Route[]
  /**
   * Fixed addresses of pods, by "NAMESPACE/NAME/INTERFACE". They lie in the pool, outside of its blocks. An empty list
   * means that the pod's addresses are not on this node yet; its ADD fails until they are.
   */
  readonly fixed: Readonly<Record<string, readonly string[]>>
  /** Further pods that wait in the same way, where there are too many for their names: their `fixedDigest`s, one after the other. */
  readonly fixedElsewhere?: string
}

/** Digits of a `fixedDigest`. With 64 bits no two of 31,000 pods have the same one. */
const DIGEST_LENGTH = 16

/** What `fixedElsewhere` has of a pod's interface, "NAMESPACE/NAME/INTERFACE": the first 64 bits of the SHA-256, in hexadecimal digits. */
export function fixedDigest(key: string): string {
  return sha256(key).slice(0, DIGEST_LENGTH)
}

/** Whether a pod's interface has a fixed address that this node has not got. */
export function isFixedElsewhere({ fixed, fixedElsewhere = "" }: PoolFile, key: string): boolean {
  if (Object.hasOwn(fixed, key)) return fixed[key]?.length === 0
  if (fixedElsewhere === "") return false
  const digest = fixedDigest(key)
  let at = fixedElsewhere.indexOf(digest)
  while (at >= 0 && at % DIGEST_LENGTH !== 0) at = fixedElsewhere.indexOf(digest, at + 1)
  return at >= 0
}

/** Where the file of a pool lies: `<directory>/<name>.json`. */
export interface PoolPlace {
  readonly name: string
  readonly directory: string
  /** machine-id(5); another file is for tests. */
  readonly machineIdFile?: string
}

export function poolPath({ directory, name }: PoolPlace): string {
  return `${directory}/${name}.json`
}

/**
 * Reads the file of a pool. Throws code 11 if the file is missing or torn, or is for another machine, pool or version. Throws code 5 if
 * users other than root can write to its directory.
 */
export function readPoolFile(place: PoolPlace): PoolFile {
  requireOwn(place.directory)
  const path = poolPath(place)
  const text = readIfPresent(place, path)
  if (text === undefined) throw refuse(place, `there is no "${path}"`)
  const end = text.lastIndexOf(checksumKey)
  if (end < 0 || text.slice(end) !== checksumOf(text.slice(0, end))) throw refuse(place, `"${path}" is torn`)
  const file = parse(place, text)
  if (file.pool !== place.name) throw refuse(place, `"${path}" is of pool "${file.pool}"`)
  const machineId = readIfPresent(place, place.machineIdFile ?? "/etc/machine-id")?.trim() ?? ""
  if (file.node.machineId === machineId) return file
  throw refuse(
    place,
    `"${path}" is of node "${file.node.name}" with machine id "${file.node.machineId}", and this is "${machineId}"`,
  )
}

function parse(place: PoolPlace, text: string): PoolFile {
  const path = poolPath(place)
  let file: Partial<PoolFile> | null
  try {
    file = JSON.parse(text)
  } catch (cause) {
    throw refuse(place, `"${path}" is not JSON`, cause)
  }
  if (file?.version !== VERSION)
    throw refuse(place, `"${path}" has version ${file?.version}, and this release reads ${VERSION}`)
  if (isPoolFile(file)) return file
  throw refuse(place, `"${path}" is not the file of a pool`)
}

/** Whether a file has the keys that are used here. Blocks are checked when they are used. */
function isPoolFile(file: Partial<PoolFile>): file is PoolFile {
  const { pool, node, store, sets, routes, fixed, fixedElsewhere } = file
  return (
    typeof pool === "string" &&
    typeof node?.name === "string" &&
    typeof node.machineId === "string" &&
    typeof store === "string" &&
    Array.isArray(sets) &&
    sets.every(isPoolSet) &&
    Array.isArray(routes) &&
    routes.every((route) => typeof route?.dst === "string" && parseCidr(route.dst) !== undefined) &&
    typeof fixed === "object" &&
    fixed !== null &&
    (fixedElsewhere === undefined || typeof fixedElsewhere === "string")
  )
}

function isPoolSet(set: Partial<PoolSet> | null): set is PoolSet {
  return (
    typeof set?.prefix === "string" &&
    (set.gateway === undefined || typeof set.gateway === "string") &&
    Number.isInteger(set.blockLength) &&
    Array.isArray(set.blocks) &&
    Array.isArray(set.draining) &&
    Array.isArray(set.reserved)
  )
}

function readIfPresent(place: PoolPlace, path: string): string | undefined {
  try {
    const bytes = findFile(path, POOL_FILE_MAX)
    return bytes && decodeUtf8(bytes)
  } catch (cause) {
    throw cause instanceof SyscallError ? refuse(place, `Cannot read "${path}"`, cause) : cause
  }
}

/** The error for a pool that cannot be used now: code 11 (try again later), since its agent may write the file at any time. */
export function refuse({ name }: PoolPlace, reason: string, cause?: unknown): CniError {
  return new CniError(Code.TryAgainLater, `Cannot use pool "${name}": ${reason}`, { cause })
}

/** The text of a pool's file: JSON on one line, and at its end the checksum of all that comes before. */
export function formatPoolFile(file: PoolFile): string {
  const text = JSON.stringify(file).slice(0, -1)
  return text + checksumOf(text)
}

const checksumKey = ',"checksum":"'

function checksumOf(text: string): string {
  return `${checksumKey}${crc32(text).toString(16).padStart(8, "0")}"}\n`
}
