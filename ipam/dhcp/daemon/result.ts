import { AF_INET, type Dns, type Result } from "../../../pkg/types/mod.ts"
import type { DhcpConfig } from "../config.ts"
import type { ClientState, Lease } from "../protocol/types.ts"
import type { Subject } from "./journal.ts"
import { type DaemonOptions, patienceMsOf } from "./options.ts"

type Wishes = Pick<DhcpConfig, "priority" | "useOptions">

export function resultOf(leases: readonly Lease[], { priority, useOptions }: Wishes): Result {
  return {
    interfaces: [],
    ips: leases.map(({ address, gateway }) => ({ address, ...(gateway === undefined ? {} : { gateway }) })),
    routes: leases.flatMap(({ routes }) => routes.map((route) => (priority === 0 ? route : { ...route, priority }))),
    dns: useOptions ? dnsOf(leases) : {},
  }
}

function dnsOf(leases: readonly Lease[]): Dns {
  const nameservers = [...new Set(leases.flatMap((lease) => lease.nameservers))]
  const search = [...new Set(leases.flatMap((lease) => lease.search))]
  const domain = leases.find((lease) => lease.domain !== undefined)?.domain
  return {
    ...(nameservers.length > 0 ? { nameservers } : {}),
    ...(domain === undefined ? {} : { domain }),
    ...(search.length > 0 ? { search } : {}),
  }
}

/** Returns the MTU in the leases, or undefined if none exists or options are not used. */
export function mtuOf(leases: readonly Lease[], { useOptions }: Wishes): number | undefined {
  return useOptions ? leases.find(({ mtu }) => mtu !== undefined)?.mtu : undefined
}

/** Returns the reason why a lease is missing, for the error after a timeout of ADD. */
export function noLeaseReason(subject: Subject, clients: readonly ClientState[], options: DaemonOptions): string {
  const { link, namespace, config } = subject
  const seconds = patienceMsOf(config, options) / 1000
  const where = `"${link.name}" (${link.mac}) in "${namespace.path}"`
  const seen =
    clients.flatMap((client) => client.seen ?? []).at(-1) ?? "none; check the switch port of the parent interface"
  return `no more tries: no ${missingOf(clients)} in ${seconds} s on ${where}; last packet seen: ${seen}`
}

/** Returns the messages that the clients wait for: "OFFER", "ACK from server 10.1.2.1". */
export function missingOf(clients: readonly ClientState[]): string {
  const waiting = clients.find(({ phase }) => phase !== "bound")
  if (!waiting) return clients.length === 0 ? "carrier" : "link-local IPv6 address"
  return waiting.offer ? `${awaited(waiting)} from server ${waiting.offer.server}` : awaited(waiting)
}

function awaited({ phase, config }: ClientState): string {
  const isIpv4 = config.family === AF_INET
  if (phase === "requesting" || phase === "rebooting") return isIpv4 ? "ACK" : "REPLY"
  if (phase === "routing") return "router advertisement"
  if (phase === "probing") return "end of the ARP probe"
  return isIpv4 ? "OFFER" : "ADVERTISE"
}
