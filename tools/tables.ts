import type { Lease } from "../ipam/host-local/main.ts"
import type { JsonObject, Result } from "../pkg/types/mod.ts"

/** A result for human eyes: interfaces with their addresses, then routes, then name servers. */
export function resultTable({ interfaces, ips, routes, dns }: Result): string {
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
    table(["INTERFACE", "WHERE", "MAC", "ADDRESS", "GATEWAY"], [...rows, ...looseRows]),
    table(
      ["ROUTE", "VIA"],
      routes.map((route) => [route.dst, route.gw ?? "-"]),
    ),
    table(
      ["NAME SERVER"],
      (dns.nameservers ?? []).map((server) => [server]),
    ),
  ]
    .filter((part) => part !== "")
    .join("\n")
}

/** Columns as wide as their widest cell; nothing when there are no rows. */
export function table(heads: readonly string[], rows: readonly (readonly string[])[]): string {
  if (rows.length === 0) return ""
  const all = [heads, ...rows]
  const widths = heads.map((_, column) => Math.max(...all.map((row) => row[column]?.length ?? 0)))
  const line = (row: readonly string[]) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join("  ")
      .trimEnd()
  return `${all.map(line).join("\n")}\n`
}

/** The use of a network's ranges, and its leases. */
export interface NetworkUse {
  readonly name: string
  readonly ranges: readonly { ranges: string; used: number; reclaimable: number; total: bigint }[]
  readonly leases: readonly Lease[]
}

const BAR_WIDTH = 20

/** A table for people: a usage bar for each range set, then a row for each address. `nowMs` since 1970. */
export function leaseTable(networks: readonly NetworkUse[], nowMs: number): string {
  if (networks.length === 0) return "No addresses are handed out\n"
  return networks.map((network) => networkText(network, nowMs)).join("\n")
}

function networkText({ name, ranges, leases }: NetworkUse, nowMs: number): string {
  const bars = ranges.map(({ ranges: text, used, reclaimable, total }) => {
    const free = `${total - BigInt(used)} free${reclaimable > 0 ? `, ${reclaimable} reclaimable` : ""}`
    return `  ${usageBar(used, total)}  ${used} of ${total} used, ${free}  ${text}\n`
  })
  const rows = leases.map((lease) => [
    lease.address,
    ...(typeof lease.holder === "string"
      ? [`(${lease.holder} file)`, "-"]
      : [lease.holder.containerId, lease.holder.ifName || "-"]),
    age(nowMs - lease.writtenMs),
    namespaceText(lease),
  ])
  return `${name}\n${bars.join("")}${indent(table(["ADDRESS", "CONTAINER", "INTERFACE", "AGE", "NAMESPACE"], rows))}`
}

/** "alive  /run/netns/a", "gone, reclaimable  /run/netns/b", "?" */
function namespaceText({ netns, reclaimable }: Lease): string {
  const state = netns === undefined ? "?" : netns.exists ? "alive" : "gone"
  return `${state}${reclaimable ? ", reclaimable" : ""}${netns === undefined ? "" : `  ${netns.path}`}`
}

/** "[######··············]"; anything used shows, and only full is full. */
export function usageBar(used: number, total: bigint): string {
  const share = total === 0n ? 1 : used / Number(total)
  const most = BigInt(used) >= total ? BAR_WIDTH : BAR_WIDTH - 1
  const filled = Math.min(most, Math.max(used > 0 ? 1 : 0, Math.round(share * BAR_WIDTH)))
  return `[${"#".repeat(filled)}${"·".repeat(BAR_WIDTH - filled)}]`
}

/** "12s", "5m", "3h", "9d" */
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

/** The leases as JSON. Counts of addresses are text where a number could not hold them. */
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
