import { decodeUtf8 } from "../../pkg/engine/mod.ts"
import { FileDescriptor, read } from "../../pkg/libc/mod.ts"
import { requireOwn } from "../../pkg/records/mod.ts"
import { CniError, Code, isJsonObject, type JsonValue, messageOf } from "../../pkg/types/mod.ts"
import { parseRangeSets, type RangeSet } from "./ranges.ts"

/** The directory of this node's ranges. `cni-agent` writes a file for each network: `/run/cni/ranges/NETWORK.json`. */
export const RANGES_DIRECTORY = "/run/cni/ranges"

/** The maximum size of a file in bytes. Files have about 150 bytes. */
const FILE_MAX = 4096

/** The ranges that the cluster assigned to this node, from the file of `ipam.rangesFile`. */
export interface NodeRanges {
  readonly version: 1
  readonly node: string
  /** The node's prefixes, at most one per family; empty if it has none. A container gets an address of each prefix. */
  readonly ranges: readonly string[]
  /** Earlier ranges of the node, whose addresses containers may still have. */
  readonly former: readonly string[]
}

/**
 * Reads the file with a node's ranges. Returns undefined if the file does not exist. Throws code 11 if the content is
 * invalid, and code 5 if users other than root can change the directory.
 */
export function findNodeRanges(path: string): NodeRanges | undefined {
  using file = FileDescriptor.find(path)
  if (file === undefined) return undefined
  const bytes = new Uint8Array(FILE_MAX)
  const length = read(file.fd, bytes)
  requireOwn(path.slice(0, path.lastIndexOf("/")) || "/")
  try {
    return checked(JSON.parse(decodeUtf8(bytes.subarray(0, length))))
  } catch (error) {
    throw refuse(path, messageOf(error), error)
  }
}

/** The ranges of a configuration, or the path of the file that has them. */
export interface RangeSource {
  readonly rangeSets: readonly RangeSet[]
  readonly rangesFile: string | undefined
}

/** Returns the ranges of a configuration, or those in its file. Throws code 11 if the file has no valid ranges. */
export function rangeSetsOf({ rangeSets, rangesFile }: RangeSource): readonly RangeSet[] {
  return rangesFile === undefined ? rangeSets : nodeRangeSets(rangesFile)
}

/** Returns the range sets of a file, one for each prefix. Throws code 11 if the file has no valid ranges. */
export function nodeRangeSets(path: string): RangeSet[] {
  const file = findNodeRanges(path)
  if (file === undefined) throw refuse(path, 'it does not exist; "cni-agent run" writes it once this node has a range')
  if (file.ranges.length === 0) throw refuse(path, `node "${file.node}" has no range yet`)
  try {
    return parseRangeSets(file.ranges.map((subnet) => [{ subnet }]))
  } catch (error) {
    throw refuse(path, `node "${file.node}": ${messageOf(error)}`, error)
  }
}

function checked(value: JsonValue): NodeRanges {
  if (!isJsonObject(value)) throw new TypeError("it is not an object")
  const { version, node, ranges, former } = value
  if (version !== 1) throw new TypeError(`it has version ${JSON.stringify(version)}, but this release reads version 1`)
  if (typeof node !== "string" || !isTexts(ranges) || !isTexts(former)) throw new TypeError("a key is missing or wrong")
  return { version, node, ranges, former }
}

function isTexts(value: JsonValue | undefined): value is string[] {
  return Array.isArray(value) && value.every((one) => typeof one === "string")
}

/** Returns an error with code 11 (try again later), because the agent may write the file at any time. */
function refuse(path: string, reason: string, cause?: unknown): CniError {
  return new CniError(Code.TryAgainLater, `Cannot use the ranges of "${path}": ${reason}`, { cause })
}
