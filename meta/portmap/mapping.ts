import { formatIp } from "../../pkg/types/mod.ts"

/** The protocols whose ports can be mapped. */
export const protocols = ["tcp", "udp", "sctp"] as const

export type Protocol = (typeof protocols)[number]

/** `IPPROTO_*` */
export const protocolNumber = { tcp: 6, udp: 17, sctp: 132 } as const satisfies Record<Protocol, number>

/** Address families by the names that nf_tables has for them. */
export const families = ["ip", "ip6"] as const

export type Family = (typeof families)[number]

/** What arrives at a port of the host goes to a port of the container. */
export interface Mapping {
  protocol: Protocol
  hostPort: number
  containerPort: number
  /** Undefined: every family that the container has an address of. */
  family: Family | undefined
  /** The one address of the host that it is for, 4 or 16 bytes. Undefined: every one. */
  hostIp: Uint8Array | undefined
}

/** A mapping's end on the host as text: "8080/tcp", "203.0.113.1:8080/tcp", "[2001:db8::1]:8080/tcp". */
export function printHostEnd({ protocol, hostPort, hostIp }: Omit<Mapping, "containerPort" | "family">): string {
  return hostIp ? `${printEnd(hostIp, hostPort)}/${protocol}` : `${hostPort}/${protocol}`
}

/** An address with a port: "10.1.0.2:80", "[fd00::2]:80". */
export function printEnd(ip: Uint8Array, port: number): string {
  return ip.length === 4 ? `${formatIp(ip)}:${port}` : `[${formatIp(ip)}]:${port}`
}
