import { RouteScope } from "../../../pkg/netlink/mod.ts"
import { contains, formatCidr, formatIp, isLinkLocal, networkOf, type Route } from "../../../pkg/types/mod.ts"
import { toHex } from "./bytes.ts"
import { addressOf } from "./lease4.ts"
import { type Address6, type Association, type Options6, option6Of, options6Of } from "./options6.ts"
import { advertisementOf } from "./router.ts"
import { leaseTimes } from "./timing.ts"
import type { Lease, Moment, RouterSeen } from "./types.ts"

/** Status codes (RFC 8415, 7.5). */
export const Status6 = { Success: 0, NoAddrsAvail: 2, NoBinding: 3, NotOnLink: 4 } as const

/** The IAID of every association. A constant suffices, because the client has one DUID for each attachment. */
export const iaid = 1

/** The reason why a message has no lease: the server's status, and a description. */
export interface Refusal {
  readonly status?: number
  readonly why: string
}

/**
 * Returns the lease of an ADVERTISE or REPLY, without the routes that `withRouter` adds. If the message has several
 * addresses, takes that of `before`, or else the first.
 */
export function leaseOf6(
  message: { readonly options: Options6 },
  server: { ip: Uint8Array; mac: string },
  moment: Moment,
  before?: Lease,
): Lease | Refusal {
  const association = options6Of(message.options, "association").find((found) => found.iaid === iaid)
  const status = statusOf(message.options) ?? statusOf(association?.options ?? [])
  if (status) return status
  const duid = option6Of(message.options, "serverId")
  if (!association || !duid) return { why: `it has no ${association ? "server identifier" : "address"}` }
  const { renewSeconds, rebindSeconds } = association
  if (rebindSeconds > 0 && renewSeconds > rebindSeconds) return { why: "T1 is after T2" } // RFC 8415, 21.4
  const address = chooseAddress(association, before)
  if (!address) return { status: Status6.NoAddrsAvail, why: "it has no valid address" }
  const { validSeconds: valid, preferredSeconds: preferred } = address
  return {
    address: formatCidr({ ip: address.ip, prefix: 128 }),
    server: formatIp(server.ip),
    serverMac: server.mac,
    serverDuid: toHex(duid),
    since: moment.now,
    ...leaseTimes({ valid, renew: renewSeconds || preferred / 2, rebind: rebindSeconds || preferred * 0.8 }, moment),
    routes: [],
    nameservers: option6Of(message.options, "nameservers") ?? [],
    search: option6Of(message.options, "search") ?? [],
    ntp: option6Of(message.options, "ntp") ?? option6Of(message.options, "sntp") ?? [],
    options: message.options.map(([code, value]): [number, string] => [code, toHex(value)]),
  }
}

/** Returns the status of a message, or undefined for success, which a server may omit. */
export function statusOf(options: Options6): Refusal | undefined {
  const status = option6Of(options, "status")
  if (!status || status.code === Status6.Success) return undefined
  return { status: status.code, why: `status ${status.code}${status.message === "" ? "" : `: "${status.message}"`}` }
}

function chooseAddress({ options }: Association, before: Lease | undefined): Address6 | undefined {
  const valid = options6Of(options, "address").filter(
    ({ ip, preferredSeconds, validSeconds, options: inside }) =>
      validSeconds > 0 && preferredSeconds <= validSeconds && isUnicast(ip) && !statusOf(inside),
  )
  const known = before && addressOf(before).join()
  return valid.find(({ ip }) => ip.join() === known) ?? valid[0]
}

/** Reports whether an address is unicast: not multicast, not "::" or "::1", not link-local. */
function isUnicast(ip: Uint8Array): boolean {
  const first = ip[0] ?? 0
  const isSmall = ip.subarray(0, 15).every((byte) => byte === 0)
  return first !== 0xff && !isSmall && !isLinkLocal(ip)
}

/**
 * Returns a lease with the prefix length, gateway, routes and MTU of a router advertisement. If the server sent no DNS
 * names, adds those of the router. A router whose lifetime has passed does not become the gateway.
 */
export function withRouter(lease: Lease, router: RouterSeen | undefined, now: number): Lease {
  const advertised = router && advertisementOf(router)
  if (!router || !advertised) return lease
  const ip = addressOf(lease)
  const isAlive = now < router.at + advertised.lifetimeSeconds * 1000
  const around = advertised.onLink.find((prefix) => contains(prefix, ip))
  const routes: Route[] = []
  for (const { ip: network, prefix } of advertised.onLink) {
    const dst = formatCidr({ ip: networkOf({ ip: network, prefix }), prefix })
    if (!contains({ ip: network, prefix }, ip)) routes.push({ dst, gw: "::", scope: RouteScope.Link })
  }
  for (const { dst } of advertised.routes) routes.push({ dst, gw: router.address })
  if (isAlive) routes.push({ dst: "::/0", gw: router.address })
  return {
    ...lease,
    address: formatCidr({ ip, prefix: around?.prefix ?? 128 }),
    ...(isAlive && { gateway: router.address }),
    routes,
    ...(advertised.mtu !== undefined && { mtu: advertised.mtu }),
    nameservers: lease.nameservers.length > 0 ? lease.nameservers : advertised.nameservers,
    search: lease.search.length > 0 ? lease.search : advertised.search,
  }
}
