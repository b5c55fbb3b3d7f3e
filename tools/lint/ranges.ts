import {
  type Address,
  capacityOf,
  formatAddress,
  parseHostLocalConfig,
  type Range,
} from "../../ipam/host-local/main.ts"
import { contains, isCniError, type JsonValue, parseCidr, parseIp, parseNetworkConfig } from "../../pkg/types/mod.ts"
import { isOn, itemsAt, memberOf, type Node, nodeAt, textAt } from "./document.ts"
import { type Findings, placeInFile, type Source } from "./findings.ts"
import { plainValue } from "./keys.ts"
import { type Entry, isName, type LintNetwork } from "./network.ts"
import { hasPlaceholder } from "./placeholder.ts"

export interface PlacedRange {
  readonly network: string
  readonly entry: Entry
  readonly source: Source
  readonly node: Node
  readonly range: Range
}

/** Fewer free addresses are reported, because pods that replace others need addresses before the old ones are free. */
const FEW = 6n

/** Checks the address ranges of a network. Returns the valid ranges. */
export function checkRanges(network: LintNetwork, findings: Findings): PlacedRange[] {
  return network.entries.flatMap((entry) => {
    const ipam = nodeAt(entry.node, ["ipam"])
    if (entry.ipam?.name !== "host-local" || !ipam || findings.hasErrorIn(entry.source, ipam)) return []
    const ranges = writtenRanges(entry).flatMap((written) => readRange(network, entry, written, findings))
    checkWithin(ranges, findings)
    if (!findings.hasErrorIn(entry.source, ipam)) checkWhole(network, entry, findings)
    for (const placed of ranges) checkRange(placed, findings)
    checkRoutes(entry, ranges, findings)
    return ranges
  })
}

/** An object with the keys of a range, and its path. In the old form, `ipam` itself has these keys. */
interface Written {
  readonly node: Node
  readonly path: string
}

function writtenRanges({ node }: Entry): Written[] {
  const ipam = nodeAt(node, ["ipam"])
  const old = memberOf(ipam, "subnet") !== undefined && ipam !== undefined ? [{ node: ipam, path: "ipam" }] : []
  const sets = itemsAt(ipam, ["ranges"])
  const inSets = sets.flatMap((set, at) =>
    (set.kind === "list" ? set.items : []).map((range, index) => ({
      node: range,
      path: `ipam.ranges[${at}][${index}]`,
    })),
  )
  return [...old, ...inSets].filter((each) => !hasPlaceholder(each.node))
}

/** Parses a range with host-local's parser. */
function readRange({ name }: LintNetwork, entry: Entry, { node, path }: Written, findings: Findings): PlacedRange[] {
  const { source } = entry
  try {
    const [[range] = []] = rangeSetsOf([[plainValue(node)]])
    return range === undefined ? [] : [{ network: name, entry, source, node, range }]
  } catch (error) {
    if (!isCniError(error)) throw error
    const message = error.message.replace(/^invalid range set \d+: /, "")
    const key = ["rangeStart", "rangeEnd", "gateway"].find((each) => message.startsWith(each)) ?? "subnet"
    const hint = `the value of "${path}.${key}" in network "${name}"`
    findings.add(source, nodeAt(node, [key]) ?? node, "bad-range", message, { hint })
    return []
  }
}

function rangeSetsOf(ranges: JsonValue) {
  const raw = { cniVersion: "1.1.0", name: "lint", ipam: { type: "host-local", ranges } }
  return parseHostLocalConfig(parseNetworkConfig(raw), { verb: "ADD", args: "", raw }).rangeSets
}

function checkWithin(ranges: readonly PlacedRange[], findings: Findings): void {
  for (const [index, placed] of ranges.entries()) {
    const other = ranges.slice(0, index).find(({ range }) => overlap(range, placed.range))
    if (other === undefined) continue
    const { line, column } = placeInFile(other.source, other.node.start)
    const message = `${show(placed.range)} overlaps ${show(other.range)} at line ${line}, column ${column}`
    findings.add(placed.source, placed.node, "range-overlap", message)
  }
}

/** Reports host-local's errors about all ranges together, such as two families in one set. */
function checkWhole({ name, version }: LintNetwork, { source, node }: Entry, findings: Findings): void {
  const ipam = nodeAt(node, ["ipam"]) ?? node
  if (hasPlaceholder(ipam)) return
  const raw = { name: isName(name) ? name : "net", cniVersion: version, ipam: plainValue(ipam) }
  try {
    parseHostLocalConfig(parseNetworkConfig(raw), { verb: "ADD", args: "", raw })
  } catch (error) {
    if (!isCniError(error)) throw error
    const isEmpty = error.message === "no IP ranges specified"
    if (isEmpty && isOn(node, ["capabilities", "ipRanges"])) return // the runtime passes the ranges
    const key = /ipam\.(\w+)/.exec(error.message)?.[1] ?? "ranges"
    const place = nodeAt(node, ["ipam", key]) ?? nodeAt(node, ["ipam"])
    const isKubeRouter = isEmpty && textAt(node, ["bridge"]) === "kube-bridge"
    if (isKubeRouter) {
      findings.add(source, place, "bad-range", "no IP ranges: the agent of kube-router writes them", {
        severity: "info",
      })
      return
    }
    const hint = isEmpty ? `add "subnet", "ranges" or "rangesFile" to "ipam" of network "${name}"` : error.details
    findings.add(source, place, "bad-range", error.message, hint ? { hint } : {})
  }
}

function checkRange({ source, node, range }: PlacedRange, findings: Findings): void {
  const free = capacityOf([range])
  if (free < FEW) {
    const severity = free <= 0n ? "error" : "warning"
    const message = `${show(range)} has ${free} addresses for containers`
    findings.add(source, nodeAt(node, ["subnet"]), "small-range", message, { severity, hint: "a /24 has 253" })
  }
  const subnet = parseCidr(range.subnet)
  const gateway = parseIp(formatAddress(range.gateway))
  if (!subnet || !gateway || contains(subnet, gateway)) return
  const message = `the gateway ${formatAddress(range.gateway)} is not in ${range.subnet}: containers cannot reach it`
  findings.add(source, nodeAt(node, ["gateway"]), "gateway-outside", message)
}

function checkRoutes({ source, node }: Entry, ranges: readonly PlacedRange[], findings: Findings): void {
  if (ranges.length === 0) return
  for (const route of itemsAt(node, ["ipam", "routes"])) {
    const gateway = parseIp(textAt(route, ["gw"]) ?? "")
    const isReachable = ranges.some(({ range }) => {
      const subnet = parseCidr(range.subnet)
      return gateway && subnet && contains(subnet, gateway)
    })
    if (!gateway || isReachable) continue
    const message = `${textAt(route, ["gw"])} is not in a range of this network: containers cannot reach it`
    findings.add(source, nodeAt(route, ["gw"]), "route-gateway", message)
  }
}

/** Reports ranges that overlap ranges of another network. */
export function checkBetweenNetworks(ranges: readonly PlacedRange[], findings: Findings): void {
  for (const [index, placed] of ranges.entries()) {
    const other = ranges
      .slice(0, index)
      .find((each) => each.network !== placed.network && overlap(each.range, placed.range))
    if (other === undefined) continue
    const { line } = placeInFile(other.source, other.node.start)
    const message = `${show(placed.range)} overlaps ${show(other.range)} of network "${other.network}" (${other.source.file}:${line})`
    const severity = isOnHost(placed.entry) && isOnHost(other.entry) ? "error" : "warning"
    const hint = severity === "error" ? "the host has one route to these addresses" : "both assign the same addresses"
    findings.add(placed.source, nodeAt(placed.node, ["subnet"]) ?? placed.node, "network-overlap", message, {
      severity,
      hint,
    })
  }
}

/** Reports whether the plugin gives the host a route to the network. */
export function isOnHost({ node, type }: Entry): boolean {
  return type === "ptp" || isOn(node, ["isGateway"]) || isOn(node, ["isDefaultGateway"])
}

function overlap(a: Range, b: Range): boolean {
  return a.start.family === b.start.family && a.start.value <= b.end.value && b.start.value <= a.end.value
}

/** Formats a range as "10.1.0.1-10.1.0.254". */
export function show({ start, end }: { readonly start: Address; readonly end: Address }): string {
  return `${formatAddress(start)}-${formatAddress(end)}`
}
