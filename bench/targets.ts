import { type LoadKind, loads } from "./load.ts"
import { atATime, containers } from "./rows/burst.ts"
import { floorName } from "./rows/chain.ts"
import { withContainers } from "./rows/firewall.ts"
import { withLeases } from "./rows/host-local.ts"
import { fromConfiguration, fromFile, nodeRangesAdd } from "./rows/node-ranges.ts"
import { withMappings } from "./rows/portmap.ts"
import { besideMappings, mappings, masqueradeRow, pathRows, publishedRow } from "./rows/traffic.ts"

export type Cell = readonly [row: string, contender: string]

/** The figure that is compared: median or 99th percentile of wall time, or CPU time. */
export type Figure = "median" | "p99" | "cpuMs"

/** The ratio of our figure to another figure, with a bound that must hold and a goal. */
export interface Target {
  readonly what: string
  readonly figure: Figure
  /** Whether the inverse of the ratio is compared, because it is a rate. */
  readonly isRate?: true
  readonly ours: Cell
  readonly other: Cell
  readonly must: number
  readonly goal?: number
}

type Bounds = readonly [must: number, goal?: number]

interface Pair {
  readonly row: string
  readonly ours: string
  readonly other: string
}

function target(what: string, { row, ours, other }: Pair, [must, goal]: Bounds, figure: Figure = "median"): Target {
  return { what, figure, ours: [row, ours], other: [row, other], must, ...(goal === undefined ? {} : { goal }) }
}

/** Returns the target that compares both suites in a row. */
function toGo(what: string, row: string, bounds: Bounds, figure: Figure = "median"): Target {
  return target(what, { row, ours: "ours", other: "Go" }, bounds, figure)
}

const burst = `${containers} containers, ${Math.max(...atATime)} at a time`

/** The rows of host-local: the first ADD on a node, and later calls. */
const hostLocal = [
  ["host-local ADD, no store yet", "host-local, no store, ADD", [0.8, 0.6]],
  ["host-local ADD, kept store", "host-local ADD", [0.5, 0.4]],
  ["host-local DEL", "host-local DEL", [0.45, 0.35]],
] as const

const chainOfOne = [
  toGo("chain ADD", "chain with 1 port beside 1 ADD", [0.15, 0.12]),
  toGo("chain DEL", "chain with 1 port beside 1 DEL", [0.19, 0.15]),
]

const ratiosToGo: readonly Target[] = [
  toGo("VERSION", "bridge VERSION", [0.2, 0.16]),
  ...hostLocal.map(([what, row, bounds]) => toGo(what, row, bounds)),
  toGo("bridge+host-local ADD", "bridge+host-local beside 1 ADD", [0.5, 0.4]),
  toGo("bridge+host-local DEL", "bridge+host-local beside 1 DEL", [0.85, 0.75]),
  toGo("bridge+ipMasq ADD", "bridge+ipMasq+host-local beside 1 ADD", [0.22, 0.18]),
  toGo("bridge+ipMasq DEL", "bridge+ipMasq+host-local beside 1 DEL", [0.3, 0.25]),
  ...chainOfOne,
  toGo("chain with 20 ports ADD", "chain with 20 ports beside 1 ADD", [0.05, 0.04]),
  toGo("chain with 20 ports DEL", "chain with 20 ports beside 1 DEL", [0.19, 0.15]),
  { ...toGo(`${burst}: ADD/s`, `${burst}, ADDs`, [10, 12]), isRate: true },
  { ...toGo(`${burst}: DEL/s`, `${burst}, DELs`, [8, 10]), isRate: true },
]

/** The factor by which other work on the node may increase a ratio. */
const loadMust = 1.2

function underLoad({ goal: _, ...idle }: Target, kind: LoadKind): Target {
  const { suffix } = loads[kind]
  const [ours, other]: Cell[] = [idle.ours, idle.other].map(([row, contender]) => [`${row}${suffix}`, contender])
  const must = Number((idle.isRate ? idle.must / loadMust : idle.must * loadMust).toFixed(2))
  return { ...idle, what: `${idle.what}${suffix}`, ours: ours ?? idle.ours, other: other ?? idle.other, must }
}

const busyDisk = hostLocal.flatMap(([what, row]) =>
  (["median", "p99"] as const).map((figure) =>
    toGo(`${what}${loads.disk.suffix}, ${figure}`, `${row}${loads.disk.suffix}`, [1, 0.6], figure),
  ),
)

/** Returns the target that compares our cost beside many objects with that beside few. */
function ofMany(what: string, row: string, many: string, few: string): Target {
  return target(what, { row, ours: many, other: few }, [1.3])
}

const inLargeNodes = (["ADD", "DEL"] as const).flatMap((verb) => [
  ofMany(
    `host-local ${verb} with 30,000 leases, relative to 0`,
    `host-local by leases ${verb}`,
    withLeases("ours", 30_000),
    withLeases("ours", 0),
  ),
  ofMany(
    `portmap ${verb} with 1,000 mappings, relative to 1`,
    `portmap ${verb}`,
    withMappings("ours", 1_000),
    withMappings("ours", 1),
  ),
  ofMany(
    `firewall ${verb} beside 1,000 containers, relative to 0`,
    `firewall ${verb}`,
    withContainers("ours", 1_000),
    withContainers("ours", 0),
  ),
])

/** The bounds for the data path: at most the cost with Go's plugins. Runs of one suite differ by two percent. */
const asGo: Bounds = [1.02, 1]
const dataPath: readonly Target[] = [
  ...mappings.map((count) => {
    const pair = { row: publishedRow, ours: besideMappings("ours", count), other: besideMappings("Go", count) }
    return target(`${publishedRow}, ${count} mappings`, pair, asGo, "cpuMs")
  }),
  target(
    `${publishedRow}, 4,000 mappings, relative to 20`,
    { row: publishedRow, ours: besideMappings("ours", 4_000), other: besideMappings("ours", 20) },
    [1.05],
    "cpuMs",
  ),
  ...[masqueradeRow, ...pathRows].map((row) => toGo(row, row, asGo, "cpuMs")),
]

const chainAdd = "chain with 1 port beside 1 ADD"

export const targets: readonly Target[] = [
  ...ratiosToGo,
  ...busyDisk,
  ...ratiosToGo.map((idle) => underLoad(idle, "processes")),
  ...chainOfOne.map((idle) => underLoad(idle, "disk")),
  target(
    "CPU time of chain ADD, relative to the kernel floor and three empty processes",
    { row: chainAdd, ours: "ours", other: floorName },
    [2.3, 1.8],
    "cpuMs",
  ),
  toGo("100 host-local ADDs by 8 processes", "host-local, 8 processes, 0 leases, 100 ADDs", [1.2, 0.8]),
  toGo("dhcp ADD, a lease of dnsmasq", "dhcp ADD", [1.2, 0.8]),
  target(
    "host-local ADD with the agent's file to ADD with a range in the configuration",
    { row: nodeRangesAdd, ours: fromFile, other: fromConfiguration },
    [1.02],
  ),
  ...inLargeNodes,
  ...dataPath,
]

/** The bounds for sizes in megabytes. */
export const sizes = {
  call: { what: "peak RSS of any plugin call", must: 2.5, goal: 2 },
  readAnew: { what: "peak RSS while 30,000 leases are read anew", must: 16 },
  files: { what: "files of all plugins together", must: 50, goal: 40 },
} as const
