import {
  formatRangeSet,
  type HostLocalConfig,
  knownRangeSets,
  type Lease,
  listLeases,
  listNetworks,
  parseAddress,
  parseHostLocalConfig,
  release,
  releaseAddress,
  Store,
  usageOf,
} from "../../ipam/host-local/main.ts"
import { join } from "../../pkg/libc/mod.ts"
import { loadNetwork } from "../../pkg/libcni/mod.ts"
import {
  CniError,
  Code,
  type JsonObject,
  newestVersion,
  parseNetworkConfig,
  validateNetworkName,
} from "../../pkg/types/mod.ts"
import {
  type Arguments,
  type Command,
  outputFlags,
  placesOf,
  print,
  runtimeFlags,
  text,
  UsageError,
  word,
} from "../../tools/command.ts"
import { findContainer } from "../../tools/containers.ts"
import type { Terminal } from "../../tools/environment.ts"
import { configuredNetworks, requireNetwork } from "../../tools/known-networks.ts"
import { attachmentsOf, DEFAULT_DATA_DIR, readNode } from "../../tools/node/mod.ts"
import { leaseTable, type NetworkUse, useAsJson } from "../../tools/tables.ts"

const placeFlags = {
  "data-dir": {
    type: "string",
    value: "DIR",
    help: `reservations (default: the network's dataDir, else ${DEFAULT_DATA_DIR})`,
  },
  "conf-dir": runtimeFlags["conf-dir"],
  ...outputFlags,
} as const

export const ipamList: Command = {
  summary: "Show the addresses that host-local assigned",
  words: ["[NETWORK]"],
  flags: placeFlags,
  help: `Prints for each network its ranges and their use, and for each address the container, its interface, its age and
whether its network namespace still exists ("?": not recorded when the address was reserved). "reclaimable" addresses are
reused by an ADD that finds no free one. Nothing is changed.

Examples:
  cni ipam ls
  cni ipam ls mynet --json`,
  async run(args, terminal) {
    const [asked] = args.words
    if (asked !== undefined) requireKnown(asked, args, terminal)
    const networks = asked === undefined ? storedNetworks(args) : [asked]
    const usages = networks.map((name) => usageIn(name, args, terminal))
    print(args, terminal, {
      json: () => usages.map(useAsJson),
      text: (screen) => leaseTable(usages, Date.now(), screen),
    })
  },
}

export const ipamRelease: Command = {
  summary: "Release addresses by hand, if no DEL will follow",
  words: ["NETWORK"],
  flags: {
    address: { type: "string", value: "IP", help: "this address, and the others of the same container interface" },
    container: { type: "string", value: "NAME", help: "the addresses of this container" },
    ifname: { type: "string", value: "NAME", help: "only those of this interface (with --container; default eth0)" },
    ...placeFlags,
  },
  help: `Make sure that no container uses the addresses: host-local will assign them to another one.

Examples:
  cni ipam release mynet --address 10.22.0.7
  cni ipam release mynet --container 4e5f6a --ifname eth0`,
  async run(args, terminal) {
    const [address, container] = [text(args, "address"), text(args, "container")]
    if ((address === undefined) === (container === undefined)) throw new UsageError("give --address or --container")
    const network = word(args, 0)
    requireKnown(network, args, terminal)
    const { store } = poolOf(network, args, terminal)
    const before = listLeases(store)
    if (address !== undefined) releaseAddress(store, address)
    else
      release(store, {
        containerId: idOf(container ?? "", before, args, terminal),
        ifName: text(args, "ifname") ?? "eth0",
      })
    const left = new Set(listLeases(store).map((lease) => lease.address))
    const released = before.filter((lease) => !left.has(lease.address)).map((lease) => lease.address)
    if (released.length === 0) {
      throw new CniError(Code.Internal, `Cannot release ${address ?? container} in "${store.directory}": not reserved`)
    }
    print(args, terminal, { json: () => ({ released }), text: () => `Released ${released.join(", ")}\n` })
  },
}

function storedNetworks(args: Arguments): string[] {
  return listNetworks(text(args, "data-dir") ?? DEFAULT_DATA_DIR).sort()
}

/** Throws with the list of networks if neither a store nor a configuration has the name. */
function requireKnown(name: string, args: Arguments, terminal: Terminal): void {
  requireNetwork(name, [...storedNetworks(args), ...configuredNetworks(placesOf(args, terminal).confDir, name)])
}

/**
 * Returns the ID of the container that `name` means: one with leases, or else any known one. Throws if none matches.
 */
function idOf(name: string, leases: readonly Lease[], args: Arguments, terminal: Terminal): string {
  if (leases.some(({ holder }) => typeof holder !== "string" && holder.containerId === name)) return name
  const dataDir = text(args, "data-dir") ?? DEFAULT_DATA_DIR
  const node = readNode({ ...placesOf(args, terminal), dataDir }, { hasRoutes: false })
  const [first] = findContainer(name, attachmentsOf(node)).attachments
  return first?.containerId ?? name
}

function usageIn(name: string, args: Arguments, terminal: Terminal): NetworkUse {
  const { store, rangeSets } = poolOf(name, args, terminal)
  const leases = listLeases(store)
  const addresses = (some: Lease[]) => some.flatMap(({ address }) => parseAddress(address) ?? [])
  const usage = (set: HostLocalConfig["rangeSets"][number]) =>
    usageOf(set, addresses(leases), addresses(leases.filter(({ reclaimable }) => reclaimable)))
  return { name, ranges: rangeSets.map((set) => ({ ranges: formatRangeSet(set), ...usage(set) })), leases }
}

function poolOf(name: string, args: Arguments, terminal: Terminal) {
  validateNetworkName(name)
  const configs = configsOf(name, args, terminal)
  const dataDir = text(args, "data-dir")
  const directory = (dataDir === undefined && configs[0]?.directory) || join(dataDir ?? DEFAULT_DATA_DIR, name)
  const log = (line: string) => terminal.stderr(`${line}\n`)
  return { store: new Store({ directory, log }), rangeSets: configs.flatMap(knownRangeSets) }
}

/** Returns the address stores of a network. Returns none if the network does not use host-local. */
export function storesOf(name: string, args: Arguments, terminal: Terminal): Store[] {
  const log = (line: string) => terminal.stderr(`${line}\n`)
  const directories = new Set(configsOf(name, args, terminal).map(({ directory }) => directory))
  return [...directories].map((directory) => new Store({ directory, log }))
}

/** Returns the configurations of host-local in a network. If it cannot be loaded, prints a warning and returns none. */
function configsOf(name: string, args: Arguments, terminal: Terminal): HostLocalConfig[] {
  try {
    return loadNetwork(placesOf(args, terminal).confDir, name).plugins.flatMap((plugin) => {
      const raw: JsonObject = { ...plugin.raw, name, cniVersion: newestVersion }
      const network = parseNetworkConfig(raw, { lenient: true })
      if (network.ipam?.type !== "host-local") return []
      return [parseHostLocalConfig(network, { verb: "STATUS", args: "", raw })]
    })
  } catch (error) {
    if (!(error instanceof CniError)) throw error
    terminal.stderr(`Warning: the ranges of "${name}" are unknown: ${error.message}\n`)
    return []
  }
}
