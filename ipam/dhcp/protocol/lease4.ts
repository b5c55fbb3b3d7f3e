import {
  type Cidr,
  contains,
  formatCidr,
  formatIp,
  parseCidr,
  parseIp,
  prefixMask,
  type Route,
  sameBytes,
} from "../../../pkg/types/mod.ts"
import { toHex } from "./bytes.ts"
import { isOnLink, type Options, optionOf, routeOnLink } from "./options4.ts"
import { leaseTimes } from "./timing.ts"
import type { Lease, Moment } from "./types.ts"

interface Given {
  readonly yourAddress: string
  readonly options: Options
}

/** The data for a lease that is not in the message. */
export interface Circumstances {
  readonly serverMac: string
  readonly moment: Moment
  /** The codes of the requested options. Routers that were not requested are ignored. */
  readonly asked: readonly number[]
  readonly before?: Lease | undefined
}

/** The lease time in seconds for an answer that has none, like upstream's. */
const defaultSeconds = 3600

/** Codes of options; RFC 2132, 3.5; RFC 3442. */
const ROUTERS = 3
const CLASSLESS_ROUTES = 121

/** The smallest MTU of IPv4 (RFC 791, 3.2). */
const minimalMtu = 68

/**
 * Returns the lease of an OFFER or ACK, or a text with the reason why it has none. If the message lacks a mask or a
 * server address, the lease gets those of `before`, the lease to renew.
 */
export function leaseOf(message: Given, { serverMac, moment, asked, before }: Circumstances): Lease | string {
  const { options, yourAddress } = message
  const ip = parseIp(yourAddress) ?? new Uint8Array(4)
  if (!isUsable(ip)) return `${yourAddress} is not a host address`
  const server = optionOf(options, "server") ?? before?.server
  if (server === undefined || !isUsable(parseIp(server) ?? new Uint8Array(4))) return "no server identifier (option 54)"
  const mask = optionOf(options, "subnetMask")
  const prefix = mask === undefined ? before?.address.split("/")[1] : prefixOf(mask)
  if (prefix === undefined) {
    return mask === undefined ? "no subnet mask (option 1)" : `${mask} is not a subnet mask (option 1)`
  }
  const network = { ip, prefix: Number(prefix) }
  const lease: Lease = {
    address: formatCidr(network),
    server,
    serverMac,
    since: moment.now,
    ...leaseTimes(
      {
        valid: optionOf(options, "leaseSeconds") ?? defaultSeconds,
        renew: optionOf(options, "renewSeconds"),
        rebind: optionOf(options, "rebindSeconds"),
      },
      moment,
    ),
    ...wayOut(message, network, asked),
    nameservers: optionOf(options, "nameservers") ?? [],
    search: optionOf(options, "search") ?? [],
    ntp: optionOf(options, "ntp") ?? [],
    options: Array.from(options, ([code, value]): [number, string] => [code, toHex(value)]),
  }
  const mtu = optionOf(options, "mtu")
  if (mtu !== undefined && mtu >= minimalMtu) lease.mtu = mtu
  const domain = optionOf(options, "domain")
  if (domain !== undefined) lease.domain = domain
  const hostname = optionOf(options, "hostname")
  if (hostname !== undefined) lease.hostname = hostname
  return lease
}

/**
 * Returns the gateway, which is the first router, and the routes. If there are classless routes, ignores routers and
 * other routes (RFC 3442). If routers were not requested, ignores them, because a container in several networks has its
 * default route in another one.
 */
function wayOut({ options }: Given, network: Cidr, asked: readonly number[]): Pick<Lease, "gateway" | "routes"> {
  const asksRouters = asked.includes(ROUTERS)
  const isAsked = ({ dst }: Route) => asksRouters || asked.includes(CLASSLESS_ROUTES) || dst !== "0.0.0.0/0"
  const routers = asksRouters ? optionOf(options, "routers") : undefined
  const gateway = routers?.find((router) => isUsable(parseIp(router) ?? new Uint8Array(4)))
  const classless = optionOf(options, "classlessRoutes")?.filter(isAsked)
  const fixed = optionOf(options, "staticRoutes")?.filter(isAsked) ?? []
  if (gateway === undefined) return { routes: withRouters(classless ?? fixed, network) }
  return { gateway, routes: withRouters(classless ?? [...fixed, { dst: "0.0.0.0/0", gw: gateway }], network) }
}

/**
 * Returns routes in an order that the kernel accepts: routes on the link first. If a router is outside the leased
 * network and the other networks on the link, adds a route on the link to that router. (Clouds assign such routers,
 * with masks of /32.) Omits a route with an invalid gateway.
 */
function withRouters(routes: readonly Route[], network: Cidr): Route[] {
  const onLink = routes.filter(isOnLink)
  const reachable = [network, ...onLink.flatMap(({ dst }) => parseCidr(dst) ?? [])]
  const byRouter = routes.filter((route) => !isOnLink(route) && isUsable(parseIp(route.gw ?? "") ?? new Uint8Array(4)))
  const routers = new Set(byRouter.flatMap(({ gw }) => gw ?? []))
  for (const router of routers) {
    const ip = parseIp(router)
    if (ip && !reachable.some((each) => contains(each, ip))) onLink.push(routeOnLink(`${router}/32`))
  }
  return [...onLink, ...byRouter]
}

/** Reports whether a host can have this address: it is not in network 0 or 127, not multicast, and not in class E. */
function isUsable(ip: Uint8Array): boolean {
  const first = ip[0] ?? 0
  return first !== 0 && first !== 127 && first < 224
}

/** Returns the prefix length of a mask, or undefined for bytes that are not a mask. */
function prefixOf(mask: string): number | undefined {
  const bytes = parseIp(mask) ?? new Uint8Array(4)
  for (let prefix = 1; prefix <= 32; prefix++) if (sameBytes(prefixMask(4, prefix), bytes)) return prefix
  return undefined
}

/** Returns a lease's address without its prefix length. */
export function addressOf(lease: Lease): Uint8Array {
  return parseIp(lease.address.split("/")[0] ?? "") ?? new Uint8Array(4)
}

/** Returns a lease's address without its prefix length, as text. */
export function addressText(lease: Lease): string {
  return formatIp(addressOf(lease))
}
