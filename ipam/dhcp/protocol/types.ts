import type { Family, Route } from "../../../pkg/types/mod.ts"

/**
 * The configuration of a client. Like the whole state of a client it is plain JSON: addresses are text, bytes are
 * hexadecimal digits, times are milliseconds of the caller's clock, and absent values have no key.
 */
export interface ClientConfig {
  /** `AF_INET`: DHCPv4. `AF_INET6`: DHCPv6, and the gateway by router advertisements. */
  family: Family
  /** The link's hardware address, "0a:58:0a:01:02:03". */
  mac: string
  /** The client identifier: option 61 of DHCPv4 with its type byte, the DUID of DHCPv6 (`makeDuid`). */
  clientId: string
  /** Additional options to send: code and bytes. */
  provide: readonly (readonly [number, string])[]
  /** Codes of the options to request, in order. */
  request: readonly number[]
  /** Asks DHCPv4 servers to broadcast their answers: for links that get no unicast before they have an address. */
  broadcast: boolean
  /** The duration of the ARP probe for an IPv4 address before it is used; 0 for no probe. */
  probeMs: number
  /** The wait for an answer to the first packet; each later wait is twice as long. */
  timeoutMs: number
  /** The longest wait between two attempts. */
  resendMaxMs: number
  /** The link-local address after duplicate address detection, the source of DHCPv6. */
  linkLocal?: string
}

/** A lease as text and numbers. A value that the server has omitted is absent, a list is empty. */
export interface Lease {
  /** "10.1.2.3/24" */
  address: string
  /** The server's address; for DHCPv6 its link-local address. */
  server: string
  /** The hardware address of the server, or of its relay, for unicast. */
  serverMac: string
  /** DHCPv6: the server's DUID. */
  serverDuid?: string
  /** The time of the last acquisition or renewal. */
  since: number
  /** T1, T2, and the end of the lease. Absent: never. */
  renewAt?: number
  rebindAt?: number
  expiresAt?: number
  gateway?: string
  /** As in a result of ADD; `scope` 253 is a route without a router. */
  routes: Route[]
  mtu?: number
  nameservers: string[]
  domain?: string
  search: string[]
  ntp: string[]
  hostname?: string
  /** Every option of the answer: code and bytes, in order. */
  options: [number, string][]
}

/** An input of a client. */
export type ClientEvent =
  /**
   * Acquires a lease. A client with a lease asks whether it is still valid (INIT-REBOOT, CONFIRM), as after a restart.
   */
  | { readonly kind: "start" }
  /** An Ethernet frame of the link. A frame that is not for the client is ignored. */
  | { readonly kind: "frame"; readonly frame: Uint8Array }
  /** The deadline has passed; ignored before it has. */
  | { readonly kind: "time" }
  /** Releases the lease and ends. */
  | { readonly kind: "release" }

/** A change of the lease, for the interface. */
export type Change =
  /** The first lease, or one after the loss of another. Its address must be added. */
  | { readonly kind: "bound"; readonly lease: Lease }
  /** The lease continues. Differences from `before` must be applied. */
  | { readonly kind: "renewed"; readonly lease: Lease; readonly before: Lease }
  /** The address may no longer be used. The client requests another. */
  | { readonly kind: "lost"; readonly lease: Lease; readonly why: string }

/** The states of a client; `client.ts` has a table of them. */
export type Phase =
  | "init"
  | "selecting"
  | "requesting"
  | "probing"
  | "routing"
  | "bound"
  | "renewing"
  | "rebinding"
  | "rebooting"
  | "waiting"
  | "ended"

/** A whole client, as the journal keeps it. It is immutable; each step returns a new one. */
export interface ClientState {
  readonly config: ClientConfig
  readonly phase: Phase
  /** The current transaction. */
  readonly xid: number
  /** The start of that transaction. */
  readonly begunAt: number
  /** DHCPv4: the age of the transaction in its last DISCOVER; the REQUEST has the same. */
  readonly secs?: number
  /** Packets sent in it. */
  readonly sent: number
  /** Wait before the next packet of it. */
  readonly waitMs: number
  /** Attempts that failed since the last lease. */
  readonly failures: number
  /** The time of the next "time" event. Absent: never. */
  readonly deadline?: number
  /** The lease that is valid, or may still be. */
  readonly lease?: Lease
  /** The requested or probed offer. */
  readonly offer?: Lease
  /** DHCPv6: the last router advertisement. */
  readonly router?: RouterSeen
  /** The last packet for this client, in words: "OFFER of 10.1.2.3 from 10.1.2.1". */
  readonly seen?: string
}

/** A server's answer to a state's request. `seen` is its description. */
export type Answer =
  /** OFFER and ADVERTISE; ACK and REPLY. */
  | { readonly kind: "offer" | "ack"; readonly lease: Lease; readonly seen: string }
  /** The lease is valid and unchanged: a REPLY to CONFIRM. */
  | { readonly kind: "confirmed"; readonly seen: string }
  /** The lease may not be used: NAK, or status NotOnLink or NoAddrsAvail. */
  | { readonly kind: "nak"; readonly seen: string }
  /** The server has no record of the lease: status NoBinding. */
  | { readonly kind: "no binding"; readonly seen: string }
  /** The request failed: any other status, or an answer of DHCPv6 without an address. */
  | { readonly kind: "failed"; readonly seen: string }
  /** An answer of DHCPv4 without an address; another one may follow. */
  | { readonly kind: "ignored"; readonly seen: string }

/** A router advertisement as the state keeps it. */
export interface RouterSeen {
  readonly address: string
  readonly at: number
  readonly message: string
}

/** The outputs of a client after an event. */
export interface Step {
  readonly state: ClientState
  /** Ethernet frames to send on the link, in this order. */
  readonly send: readonly Uint8Array[]
  /** Changes of the lease to apply, in this order. */
  readonly changes: readonly Change[]
  /** Whether the client waits for frames. If not, the caller needs no socket, and holds no namespace. */
  readonly listen: boolean
}

/** The time of an event in milliseconds, and a random number from 0 to less than 1. */
export interface Moment {
  readonly now: number
  random(): number
}
