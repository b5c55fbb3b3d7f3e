import { type Namespace, newest } from "../lab/mod.ts"

/** Returns a ptp network with host-local addresses in 10.9.0.0/24. `keys` replace or add top-level keys. */
export function ptpNetwork(keys: object = {}): Record<string, unknown> & { ipam: Record<string, unknown> } {
  const ipam = { type: "host-local", ranges: [[{ subnet: "10.9.0.0/24" }]] }
  return { cniVersion: newest, name: "wire", type: "ptp", ipam, ...keys }
}

/** Keys for addresses of both families, with a default route for each. */
export const dualStack = {
  ipam: {
    type: "host-local",
    ranges: [[{ subnet: "10.9.0.0/24" }], [{ subnet: "fd00:9::/64" }]],
    routes: [{ dst: "0.0.0.0/0" }, { dst: "::/0" }],
  },
}

/** Returns the configuration of the static plugin with `addresses`, and with default routes of both families. */
export function staticIpam(...addresses: { address: string; gateway?: string }[]): { ipam: Record<string, unknown> } {
  return { ipam: { type: "static", addresses, routes: [{ dst: "0.0.0.0/0" }, { dst: "::/0" }] } }
}

/** Returns a family's routes over a link in the main table, sorted, as `ip route` prints them, except link-local. */
export async function routesOf(where: Namespace, name: string, family: "-4" | "-6"): Promise<string[]> {
  const { stdout } = await where.exec("ip", [family, "route", "show", "dev", name])
  return stdout
    .split("\n")
    .map((line) => line.replace("linkdown", "").replaceAll(/\s+/g, " ").trim())
    .filter((line) => line !== "" && !line.startsWith("fe80::/64") && !line.startsWith("multicast"))
    .sort()
}
