import { type Namespace, newest } from "../lab/mod.ts"

/** A ptp network with host-local addresses in 10.9.0.0/24; `keys` replace or add keys at the top. */
export function ptpNetwork(keys: object = {}): Record<string, unknown> & { ipam: Record<string, unknown> } {
  const ipam = { type: "host-local", ranges: [[{ subnet: "10.9.0.0/24" }]] }
  return { cniVersion: newest, name: "wire", type: "ptp", ipam, ...keys }
}

/** Both families, each with a default route. */
export const dualStack = {
  ipam: {
    type: "host-local",
    ranges: [[{ subnet: "10.9.0.0/24" }], [{ subnet: "fd00:9::/64" }]],
    routes: [{ dst: "0.0.0.0/0" }, { dst: "::/0" }],
  },
}

/** The addresses and default routes of both families as the static plugin takes them. */
export function staticIpam(...addresses: { address: string; gateway?: string }[]): { ipam: Record<string, unknown> } {
  return { ipam: { type: "static", addresses, routes: [{ dst: "0.0.0.0/0" }, { dst: "::/0" }] } }
}

/** A link as `ip -d -j address show` has it. */
export interface KernelLink {
  ifname: string
  address: string
  mtu: number
  flags: string[]
  txqlen: number
  ifalias?: string
  addr_info: { local: string; prefixlen: number; scope: string; nodad?: boolean; tentative?: boolean }[]
}

export async function linkOf(where: Namespace, name: string): Promise<KernelLink> {
  const [link] = await where.json<KernelLink[]>("ip", ["-d", "-j", "address", "show", "dev", name])
  const [details] = await where.json<KernelLink[]>("ip", ["-d", "-j", "link", "show", "dev", name])
  if (!link || !details) throw new Error(`no link ${name} in ${where.name}`)
  return { ...details, addr_info: link.addr_info }
}

/** The addresses of a link that the kernel did not make by itself: "10.9.0.1/32". */
export async function addressesOf(where: Namespace, name: string): Promise<string[]> {
  const { addr_info } = await linkOf(where, name)
  return addr_info
    .filter(({ scope, local }) => scope === "global" || local === "fe80::1")
    .map(({ local, prefixlen }) => `${local}/${prefixlen}`)
}

/** The main table's routes of a family over a link, as `ip route` prints them, sorted; those of link-local addresses left out. */
export async function routesOf(where: Namespace, name: string, family: "-4" | "-6"): Promise<string[]> {
  const { stdout } = await where.exec("ip", [family, "route", "show", "dev", name])
  return stdout
    .split("\n")
    .map((line) => line.replace("linkdown", "").replaceAll(/\s+/g, " ").trim())
    .filter((line) => line !== "" && !line.startsWith("fe80::/64") && !line.startsWith("multicast"))
    .sort()
}
