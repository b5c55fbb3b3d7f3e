import { decodeUtf8 } from "../../pkg/engine/mod.ts"
import { FileDescriptor, read } from "../../pkg/libc/mod.ts"
import { requireOwn } from "../../pkg/records/mod.ts"
import { CniError, Code, isJsonObject, type JsonValue, messageOf } from "../../pkg/types/mod.ts"
import { parseRangeSets, type RangeSet } from "./ranges.ts"

/** Where `cni-agent` writes the ranges of this node: a file for each network, `/run/cni/ranges/NETWORK.json`. */
export const RANGES_DIRECTORY = "/run/cni/ranges"

/** In bytes; a file has some 150, and is read by one read(2). */
const FILE_MAX = 4096

/** The ranges that the cluster has given to this node: the file that `ipam.rangesFile` names. */
export interface NodeRanges {
  readonly version: 1
  /** The name of the Node object. */
  readonly node: string
  /** The node's prefixes, at most one of each family; empty while the Node object has none. A container gets an address of each. */
  readonly ranges: readonly string[]
  /** Ranges that the node had before, of which containers may still have addresses. */
  readonly former: readonly string[]
}

/**
 * Reads the file of a node's ranges; undefined without one. Throws code 11 for a file of another kind, and code 5 when others than root can
 * change its directory.
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

/** Where the ranges of a configuration are: in itself, or in a file. */
export interface RangeSource {
  readonly rangeSets: readonly RangeSet[]
  readonly rangesFile: string | undefined
}

/** Returns the ranges that a configuration hands out: its own, or those of its file. Throws code 11 for a file without ranges. */
export function rangeSetsOf({ rangeSets, rangesFile }: RangeSource): readonly RangeSet[] {
  return rangesFile === undefined ? rangeSets : nodeRangeSets(rangesFile)
}

/** The range sets of a file, one for each prefix. Throws code 11 where there is no range yet. */
export function nodeRangeSets(path: string): RangeSet[] {
  const file = findNodeRanges(path)
  if (file === undefined)
    throw refuse(path, 'there is no such file; "cni-agent run" writes it once it knows this node\'s range')
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
  if (version !== 1) throw new TypeError(`it has version ${JSON.stringify(version)}, and this release reads 1`)
  if (typeof node !== "string" || !isTexts(ranges) || !isTexts(former)) throw new TypeError("a key is missing or wrong")
  return { version, node, ranges, former }
}

function isTexts(value: JsonValue | undefined): value is string[] {
  return Array.isArray(value) && value.every((one) => typeof one === "string")
}

/** Code 11, try again later: the agent may write the file at any time. */
function refuse(path: string, reason: string, cause?: unknown): CniError {
  return new CniError(Code.TryAgainLater, `Cannot use the ranges of "${path}": ${reason}`, { cause })
}
