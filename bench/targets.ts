import { loadSuffix, type Measurement } from "./measure.ts"
import { atATime, containers } from "./rows/burst.ts"
import { floorName } from "./rows/chain.ts"
import { withContainers } from "./rows/firewall.ts"
import { withLeases } from "./rows/host-local.ts"
import { withMappings } from "./rows/portmap.ts"

/** A contender's time in a row. */
type Cell = readonly [row: string, contender: string]

/** What has to be reached, and what should be. */
export interface Target {
  readonly what: string
  /** `time`: ours to the other's. `rate`: the same upside down. `load`: that ratio under load to that without. */
  readonly kind: "time" | "rate" | "load"
  readonly ours: Cell
  readonly other: Cell
  readonly must: number
  readonly goal?: number
}

/** A target and what was measured. */
export interface Verdict {
  readonly what: string
  readonly value: number
  readonly unit: "x" | "MB"
  /** Whether less is better. */
  readonly atMost: boolean
  readonly must: number
  readonly goal?: number
}

const toGo = (what: string, row: string, must: number, goal?: number): Target => ({
  what,
  kind: "time",
  ours: [row, "ours"],
  other: [row, "Go"],
  must,
  ...(goal === undefined ? {} : { goal }),
})

const burst = `${containers} containers, ${Math.max(...atATime)} at a time`

const ratiosToGo: readonly Target[] = [
  toGo("VERSION", "bridge VERSION", 0.45),
  toGo("host-local ADD, empty store", "host-local ADD", 1.2, 0.8),
  toGo("host-local DEL, empty store", "host-local DEL", 1.2, 0.8),
  toGo("100 host-local ADDs by 8 processes, empty store", "host-local, 8 processes, 0 leases, 100 ADDs", 1.2, 0.8),
  toGo("bridge+host-local ADD", "bridge+host-local beside 1 ADD", 0.75, 0.6),
  toGo("bridge+host-local DEL", "bridge+host-local beside 1 DEL", 1.1, 0.9),
  toGo("bridge+ipMasq ADD, beside one pod", "bridge+ipMasq+host-local beside 1 ADD", 0.4),
  toGo("bridge+ipMasq DEL, beside one pod", "bridge+ipMasq+host-local beside 1 DEL", 0.4),
  toGo("chain ADD, beside one pod", "chain with 1 port beside 1 ADD", 0.33, 0.25),
  toGo("chain DEL, beside one pod", "chain with 1 port beside 1 DEL", 0.25, 0.18),
  toGo("chain with 20 ports ADD", "chain with 20 ports beside 1 ADD", 0.12, 0.08),
  toGo("chain with 20 ports DEL", "chain with 20 ports beside 1 DEL", 0.25, 0.15),
  { ...toGo(`${burst}: ADD/s`, `${burst}, ADDs`, 4, 6), kind: "rate" },
  { ...toGo(`${burst}: DEL/s`, `${burst}, DELs`, 5, 8), kind: "rate" },
]

/** How much a ratio may suffer from other work on the node. */
const loadMust = 1.2

/** On a node under load: the target's ratio by itself, and what was measured in comparison with the ratio without load. */
function loadTargets({ what, kind, ours, other, must }: Target): Target[] {
  const [here, there]: Cell[] = [ours, other].map(([row, contender]) => [`${row}${loadSuffix}`, contender])
  const rounded = Number((kind === "rate" ? must / loadMust : must * loadMust).toFixed(2))
  return [
    { what: `${what}, under load`, kind, ours: here ?? ours, other: there ?? other, must: rounded },
    { what: `${what}, under load to without`, kind: "load", ours, other, must: loadMust },
  ]
}

const between = (what: string, ours: Cell, other: Cell, must: number): Target => ({
  what,
  kind: "time",
  ours,
  other,
  must,
})
const ofLeases = (verb: string): Target => {
  const row = `host-local by leases ${verb}`
  return between(
    `host-local ${verb} at 30,000 leases to ours at 0`,
    [row, withLeases("ours", 30_000)],
    [row, withLeases("ours", 0)],
    1.3,
  )
}
const ofMappings = (verb: string): Target => {
  const row = `portmap ${verb}`
  return between(
    `portmap ${verb} at 1,000 mappings to ours at 1`,
    [row, withMappings("ours", 1_000)],
    [row, withMappings("ours", 1)],
    1.3,
  )
}
const ofContainers = (verb: string): Target => {
  const row = `firewall ${verb}`
  return between(
    `firewall ${verb} beside 1,000 containers to ours alone`,
    [row, withContainers("ours", 1_000)],
    [row, withContainers("ours", 0)],
    1.3,
  )
}
const ofFloor = (verb: string, must: number): Target => {
  const row = `chain with 1 port beside 1 ${verb}`
  return between(`chain ${verb} to kernel floor + three empty processes`, [row, "ours"], [row, floorName], must)
}

/** All targets that are ratios of times. */
export const targets: readonly Target[] = [
  ...ratiosToGo,
  ...ratiosToGo.flatMap(loadTargets),
  toGo("dhcp ADD, a lease of dnsmasq", "dhcp ADD", 1.2, 0.8),
  ofLeases("ADD"),
  ofLeases("DEL"),
  ofMappings("ADD"),
  ofMappings("DEL"),
  ofContainers("ADD"),
  ofContainers("DEL"),
  ofFloor("ADD", 2),
  ofFloor("DEL", 1.4),
]

const peakMusts = { call: 4, readAnew: 16, executable: 5 } as const

/** The verdicts on what was measured; a target whose rows were not is left out. */
export function judge(measurements: readonly Measurement[], executableBytes: number): Verdict[] {
  const median = ([row, contender]: Cell, suffix = "") =>
    measurements.find((measured) => measured.row === row + suffix && measured.contender === contender)?.median
  const ratio = ({ ours, other }: Target, suffix = "") =>
    (median(ours, suffix) ?? Number.NaN) / (median(other, suffix) ?? Number.NaN)
  const ratios = targets.map((target): Verdict => {
    const { what, kind, must, goal } = target
    const value =
      kind === "time" ? ratio(target) : kind === "rate" ? 1 / ratio(target) : ratio(target, loadSuffix) / ratio(target)
    return { what, value, unit: "x", atMost: kind !== "rate", must, ...(goal === undefined ? {} : { goal }) }
  })
  const ours = measurements.filter(({ contender }) => contender.startsWith("ours"))
  const peak = (isAnew: boolean) =>
    Math.max(...ours.filter(({ row }) => row.includes("read anew") === isAnew).map(({ peakKb }) => peakKb / 1024))
  const sizes: Verdict[] = [
    { what: "peak RSS of any plugin call", value: peak(false), unit: "MB", atMost: true, must: peakMusts.call },
    {
      what: "peak RSS while 30,000 leases are read anew",
      value: peak(true),
      unit: "MB",
      atMost: true,
      must: peakMusts.readAnew,
    },
    {
      what: "executable, all plugins",
      value: executableBytes / 2 ** 20,
      unit: "MB",
      atMost: true,
      must: peakMusts.executable,
    },
  ]
  return [...ratios, ...sizes].filter(({ value }) => Number.isFinite(value))
}

/** Whether a bound holds. */
export function holds({ value, atMost }: Verdict, bound: number): boolean {
  return atMost ? value <= bound : value >= bound
}
