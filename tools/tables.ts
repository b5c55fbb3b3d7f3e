import type { Lease } from "../ipam/host-local/main.ts"
import type { JsonObject, Result } from "../pkg/types/mod.ts"
import { containerText, fittedTable, type Screen } from "./screen.ts"

/** Returns a result as text: interfaces with their addresses, then routes, then name servers. */
export function resultTable({ interfaces, ips, routes, dns }: Result, screen: Screen): string {
  const rows = interfaces.map((one, index) => {
    const own = ips.filter((ip) => ip.interface === index)
    return [
      one.name,
      one.sandbox ?? "host",
      one.mac ?? "-",
      own.map((ip) => ip.address).join(",") || "-",
      own.flatMap((ip) => ip.gateway ?? []).join(",") || "-",
    ]
  })
  const loose = ips.filter((ip) => ip.interface === undefined || interfaces[ip.interface] === undefined)
  const looseRows = loose.map((ip) => ["-", "-", "-", ip.address, ip.gateway ?? "-"])
  return [
    fittedTable(resultColumns, [...rows, ...looseRows], screen),
    fittedTable(
      ["ROUTE", "VIA"],
      routes.map((route) => [route.dst, route.gw ?? "-"]),
      screen,
    ),
    fittedTable(
      ["NAME SERVER"],
      (dns.nameservers ?? []).map((server) => [server]),
      screen,
    ),
  ]
    .filter((part) => part !== "")
    .join("\n")
}

const resultColumns = [
  { head: "INTERFACE", isWhole: true },
  "WHERE",
  { head: "MAC", isWhole: true, falls: 1 },
  { head: "ADDRESS", isWhole: true },
  { head: "GATEWAY", falls: 2 },
]

/** Sorts by names in natural order: "web-9" comes before "web-10". */
export function sortedByNames<T>(items: readonly T[], namesOf: (item: T) => readonly string[]): T[] {
  const keys = new Map<string, string>() // most names on a node occur many times
  const padded = (name: string) => name.replace(/\d+/g, (digits) => digits.padStart(20, "0"))
  const keyOf = (item: T) => namesOf(item).map((name) => keys.getOrInsertComputed(name, padded))
  const keyed = items.map((item) => ({ item, key: keyOf(item).join("\0") }))
  return keyed.sort((a, b) => (a.key < b.key ? -1 : Number(a.key > b.key))).map(({ item }) => item)
}

export interface NetworkUse {
  readonly name: string
  readonly ranges: readonly { ranges: string; used: number; reclaimable: number; total: bigint }[]
  readonly leases: readonly Lease[]
}

const BAR_WIDTH = 20

/** Returns a table for terminals: a bar for each range set, a row for each address. `nowMs` is since 1970. */
export function leaseTable(networks: readonly NetworkUse[], nowMs: number, screen: Screen): string {
  if (networks.length === 0) return "No addresses are in use\n"
  return networks.map((network) => networkText(network, nowMs, screen)).join("\n")
}

const leaseColumns = [
  { head: "ADDRESS", isWhole: true },
  { head: "CONTAINER", isWhole: true },
  { head: "INTERFACE", isWhole: true, falls: 2 },
  { head: "AGE", isWhole: true, falls: 1 },
  "NETNS",
]

function networkText({ name, ranges, leases }: NetworkUse, nowMs: number, screen: Screen): string {
  const bars = ranges.map(({ ranges: text, used, reclaimable, total }) => {
    const free = `${total - BigInt(used)} free${reclaimable > 0 ? `, ${reclaimable} reclaimable` : ""}`
    return `  ${usageBar(used, total)}  ${used} of ${total} used, ${free}  ${text}\n`
  })
  const rows = leases.map((lease) => [
    lease.address,
    ...(typeof lease.holder === "string"
      ? [`(${lease.holder} file)`, "-"]
      : [containerText(lease.holder.containerId, screen), lease.holder.ifName || "-"]),
    age(nowMs - lease.writtenMs),
    namespaceText(lease),
  ])
  const room = screen.columns === undefined ? screen : { ...screen, columns: screen.columns - 2 }
  return `${name}\n${bars.join("")}${indent(fittedTable(leaseColumns, rows, room))}`
}

/** Returns the state of a lease's namespace: "alive  /run/netns/a", "gone, reclaimable  /run/netns/b", or "?". */
function namespaceText({ netns, reclaimable }: Lease): string {
  const state = netns === undefined ? "?" : netns.exists ? "alive" : "gone"
  return `${state}${reclaimable ? ", reclaimable" : ""}${netns === undefined ? "" : `  ${netns.path}`}`
}

/** Returns a bar such as "[######··············]", empty only for an unused range set, full only for a full one. */
export function usageBar(used: number, total: bigint): string {
  const share = total === 0n ? 1 : used / Number(total)
  const most = BigInt(used) >= total ? BAR_WIDTH : BAR_WIDTH - 1
  const filled = Math.min(most, Math.max(used > 0 ? 1 : 0, Math.round(share * BAR_WIDTH)))
  return `[${"#".repeat(filled)}${"·".repeat(BAR_WIDTH - filled)}]`
}

/** Returns a duration as text: "12s", "5m", "3h", or "9d". */
export function age(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000))
  if (seconds < 60) return `${seconds}s`
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m`
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)}h`
  return `${Math.floor(seconds / 86_400)}d`
}

function indent(text: string): string {
  return text.replace(/^(?=.)/gm, "  ")
}

/** Returns the leases as JSON. Counts of addresses that a number cannot represent are text. */
export function useAsJson({ name, ranges, leases }: NetworkUse): JsonObject {
  return {
    network: name,
    rangeSets: ranges.map(({ ranges: text, used, reclaimable, total }) => ({
      ranges: text,
      used,
      reclaimable,
      free: exact(total - BigInt(used)),
      total: exact(total),
    })),
    leases: leases.map((lease) => ({
      address: lease.address,
      ...(typeof lease.holder === "string"
        ? { file: lease.holder }
        : { containerId: lease.holder.containerId, ifName: lease.holder.ifName }),
      reserved: new Date(lease.writtenMs).toISOString(),
      ...(lease.netns ? { netns: lease.netns.path, netnsExists: lease.netns.exists } : {}),
      ...(lease.liveness ? { liveness: lease.liveness } : {}),
      reclaimable: lease.reclaimable,
    })),
  }
}

function exact(count: bigint): number | string {
  return count <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(count) : String(count)
}
