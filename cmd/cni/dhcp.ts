import { DEFAULT_STATE, Journal, type LeaseRecord, namespaceLives, readBootId } from "../../ipam/dhcp/main.ts"
import { type Command, outputFlags, placesOf, print, text } from "../../tools/command.ts"
import { configuredNetworks, requireNetwork } from "../../tools/known-networks.ts"
import { containerText, fittedTable, type Screen } from "../../tools/screen.ts"
import { age, sortedByNames } from "../../tools/tables.ts"

/** A lease for display. Times are in milliseconds since 1970, and absent if the lease never expires. */
export interface ShownLease {
  readonly network: string
  readonly containerId: string
  readonly ifName: string
  readonly address: string | undefined
  readonly server: string | undefined
  /** "bound", "renewing", "rebinding", or "acquiring" while ADD is running. */
  readonly state: string
  readonly renewAt: number | undefined
  readonly rebindAt: number | undefined
  readonly expiresAt: number | undefined
  readonly ntp: readonly string[]
  readonly netns: string
  /** Whether the container's namespace still exists. */
  readonly alive: boolean
}

export const dhcpList: Command = {
  summary: "Show the leases of the dhcp daemon",
  words: ["[NETWORK]"],
  flags: {
    "state-dir": { type: "string", value: "DIR", help: `the daemon's -statedir (default ${DEFAULT_STATE})` },
    ...outputFlags,
  },
  help: `For each lease: its address and server, the time of renewal (T1), the time of rebinding (T2), its end, and
whether the container's network namespace exists. Reads the daemon's files on disk; nothing is changed.

Examples:
  cni dhcp ls
  cni dhcp ls mynet --json`,
  async run(args, terminal) {
    const journal = new Journal(text(args, "state-dir") ?? DEFAULT_STATE)
    const records = journal.exists ? journal.list((line) => terminal.stderr(`${line}\n`)) : []
    const [network] = args.words
    const configured = configuredNetworks(placesOf(args, terminal).confDir, network)
    requireNetwork(network, [...records.map((record) => record.network), ...configured])
    const bootId = readBootId()
    const shown = records
      .filter((record) => network === undefined || record.network === network)
      .flatMap((record) => shownLeases(record, record.bootId === bootId))
    const leases = sortedByNames(shown, ({ network, containerId, ifName, address = "" }) => [
      network,
      containerId,
      ifName,
      address,
    ])
    print(args, terminal, {
      json: () => leases.map(asJson),
      text: (screen) => leaseTable(leases, Date.now(), screen),
    })
  },
}

/** Returns the leases in a record: one for each DHCP client. */
export function shownLeases(record: LeaseRecord, isOfThisBoot: boolean): ShownLease[] {
  const { network, containerId, ifName, namespace, progress, clients, writtenAt, clock } = record
  const wall = (time: number | undefined) => (time === undefined ? undefined : Math.round(writtenAt + time - clock))
  return clients.map(({ lease, offer, phase }) => ({
    network,
    containerId,
    ifName,
    address: lease?.address ?? offer?.address,
    server: lease?.server ?? offer?.server,
    state: progress === "held" ? phase : progress,
    renewAt: wall(lease?.renewAt),
    rebindAt: wall(lease?.rebindAt),
    expiresAt: wall(lease?.expiresAt),
    ntp: lease?.ntp ?? [],
    netns: namespace.path,
    alive: isOfThisBoot && namespaceLives(namespace),
  }))
}

function asJson({ address, server, renewAt, rebindAt, expiresAt, ...others }: ShownLease) {
  const time = (ms: number | undefined) => (ms === undefined ? null : new Date(ms).toISOString())
  return {
    ...others,
    ntp: [...others.ntp],
    address: address ?? null,
    server: server ?? null,
    renewAt: time(renewAt),
    rebindAt: time(rebindAt),
    expiresAt: time(expiresAt),
  }
}

/** Returns a table for terminals. `nowMs` is in milliseconds since 1970. */
export function leaseTable(leases: readonly ShownLease[], nowMs: number, screen: Screen): string {
  if (leases.length === 0) return "No leases\n"
  const left = (time: number | undefined) =>
    time === undefined ? "never" : time <= nowMs ? `${age(nowMs - time)} ago` : `in ${age(time - nowMs)}`
  const rows = leases.map((lease) => [
    lease.network,
    containerText(lease.containerId, screen),
    lease.ifName,
    lease.address ?? "-",
    lease.server ?? "-",
    lease.state,
    left(lease.renewAt),
    left(lease.rebindAt),
    left(lease.expiresAt),
    lease.alive ? "alive" : "gone",
  ])
  return fittedTable(COLUMNS, rows, screen)
}

const COLUMNS = [
  { head: "NETWORK", falls: 6 },
  { head: "CONTAINER", isWhole: true },
  { head: "INTERFACE", isWhole: true, falls: 5 },
  { head: "ADDRESS", isWhole: true },
  { head: "SERVER", isWhole: true, falls: 3 },
  { head: "STATE", isWhole: true },
  { head: "T1", isWhole: true, falls: 1 },
  { head: "T2", isWhole: true, falls: 2 },
  { head: "EXPIRES", isWhole: true },
  { head: "NETNS", isWhole: true, falls: 4 },
]
