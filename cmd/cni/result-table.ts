import type { Result } from "../../pkg/types/mod.ts"

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
