import {
  findNodeRanges,
  listLeases,
  listNetworks,
  type NodeRanges,
  Store,
  takenAddresses,
} from "../ipam/host-local/main.ts"
import {
  basename,
  dirname,
  exists,
  makeDirectories,
  readEntries,
  replaceFile,
  unlessErrno,
  unlink,
} from "../pkg/libc/mod.ts"
import { deleteAddress, getLink, listAddresses, type RouteSocket } from "../pkg/netlink/mod.ts"
import { type Cidr, contains, isCniError, nextAddress, parseCidr, parseIp, sameBytes } from "../pkg/types/mod.ts"

/** A network whose containers get addresses from the node's ranges. */
export interface RangedNetwork {
  readonly name: string
  /** The file with the node's ranges: "/run/cni/ranges/pods.json". */
  readonly file: string
  /** The directory of host-local's reservations: "/var/lib/cni/networks/pods". */
  readonly directory: string
}

/**
 * Returns a message if containers of another network have addresses in `ranges`, because host-local would assign these
 * addresses again. Returns undefined otherwise. Ignores reservations of an earlier boot, because host-local removes
 * them.
 */
export function otherHolder(dataDir: string, { name }: RangedNetwork, ranges: readonly string[]): string | undefined {
  const wanted = ranges.flatMap((text) => parseCidr(text) ?? [])
  const isWanted = (ip: Uint8Array | undefined) => ip !== undefined && wanted.some((range) => contains(range, ip))
  for (const other of listNetworks(dataDir)) {
    if (other === name) continue
    const store = new Store({ directory: `${dataDir}/${other}`, log: () => {} })
    if (!takenAddresses(store).some((address) => isWanted(parseIp(address)))) continue
    const held = listLeases(store).filter(({ address, reclaimable }) => !reclaimable && isWanted(parseIp(address)))
    if (held.length > 0) return `containers of network "${other}" use ${held.length} of its addresses`
  }
  return undefined
}

/** A container whose address is outside of the node's ranges. */
export interface Stray {
  readonly network: string
  readonly address: string
  readonly container: string
  readonly ifName: string
}

/**
 * Writes the node's ranges to the file of a network. The file lists previous ranges as `former` until `retire` removes
 * them. Returns the replaced ranges, or undefined if nothing changed. Throws `SyscallError`.
 */
export function writeRanges(
  network: RangedNetwork,
  node: string,
  ranges: readonly string[],
): readonly string[] | undefined {
  const before = readRanges(network)
  const former = [...new Set([...(before?.former ?? []), ...(before?.ranges ?? [])])].filter(
    (one) => !ranges.includes(one),
  )
  const isSame = before?.node === node && Bun.deepEquals([before.ranges, before.former], [ranges, former])
  if (isSame) return undefined
  write(network, { version: 1, node, ranges, former })
  return before?.ranges ?? []
}

/**
 * Removes range files of other networks, left by an agent with another `--network`, because two networks would assign
 * the same addresses. Returns the names of the files.
 */
export function removeOtherFiles({ file }: RangedNetwork): string[] {
  const directory = dirname(file)
  const names = (unlessErrno(() => readEntries(directory), "ENOENT") ?? []).map(({ name }) => name)
  const others = names.filter((name) => name.endsWith(".json") && name !== basename(file))
  for (const name of others) unlink(`${directory}/${name}`)
  return others
}

/** Returns the content of a network's file, or undefined if it does not exist or is unusable. */
export function readRanges({ file }: RangedNetwork): NodeRanges | undefined {
  try {
    return findNodeRanges(file)
  } catch (error) {
    if (isCniError(error)) return undefined
    throw error
  }
}

/**
 * Removes former ranges that no container uses, and deletes their gateway addresses from links: the connected route of
 * a gateway address would hide the route to the range's new node. Returns a text for each deleted address. Throws
 * `NetlinkError` and `SyscallError`.
 */
export function retire(route: RouteSocket, network: RangedNetwork): string[] {
  const file = readRanges(network)
  if (file === undefined || file.former.length === 0) return []
  const taken = takenNow(network).flatMap((text) => parseIp(text) ?? [])
  const isUsed = (range: Cidr) => taken.some((ip) => contains(range, ip))
  const unused = file.former.filter((text) => {
    const range = parseCidr(text)
    return range === undefined || !isUsed(range)
  })
  const removed = unused.flatMap((text) => removeGateway(route, text))
  // The last step, so that if this agent is killed before, the next one repeats the deletions.
  if (unused.length > 0) write(network, { ...file, former: file.former.filter((one) => !unused.includes(one)) })
  return removed
}

/** Returns the reserved addresses. Waits for the store's lock, and thus for an ADD that still uses a former range. */
function takenNow({ directory }: RangedNetwork): string[] {
  if (!exists(directory)) return []
  const store = new Store({ directory, log: () => {} })
  using lock = store.lock()
  return lock ? takenAddresses(store) : []
}

/** Deletes a range's first address from the link to which bridge or ptp assigned it. Returns a text for each link. */
function removeGateway(route: RouteSocket, text: string): string[] {
  const range = parseCidr(text)
  if (range === undefined) return []
  const gateway = nextAddress(range.ip)
  const found = listAddresses(route).filter(({ ip, prefix }) => prefix === range.prefix && sameBytes(ip, gateway))
  return found.map(({ index, ip, prefix }) => {
    const link = getLink(route, index)
    deleteAddress(route, link, { ip, prefix })
    return `${text} from "${link.name}"`
  })
}

/** Returns the containers of a network whose addresses are outside of the node's ranges. Throws `SyscallError`. */
export function straysOf(network: RangedNetwork): Stray[] {
  const ranges = readRanges(network)?.ranges.flatMap((text) => parseCidr(text) ?? [])
  if (ranges === undefined || !exists(network.directory)) return []
  const leases = listLeases(new Store({ directory: network.directory, log: () => {} }))
  const strays = leases.flatMap(({ address, holder }) => {
    const ip = parseIp(address)
    if (ip === undefined || typeof holder === "string" || ranges.some((range) => contains(range, ip))) return []
    return [{ network: network.name, address, container: holder.containerId, ifName: holder.ifName }]
  })
  return strays.sort((a, b) => (a.address < b.address ? -1 : 1))
}

function write({ file }: RangedNetwork, content: NodeRanges): void {
  makeDirectories(dirname(file))
  replaceFile(file, `${JSON.stringify(content)}\n`)
}
