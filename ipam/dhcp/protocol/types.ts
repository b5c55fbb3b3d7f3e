import type { Family, Route } from "../../../pkg/types/mod.ts"

/**
 * The configuration of a client. Like the whole state of a client it is plain JSON: addresses are text, bytes are
 * hexadecimal digits, times are milliseconds of the caller's clock, and absent values have no key.
 */
export interface ClientConfig {
  /** `AF_INET` for DHCPv4; `AF_INET6` for DHCPv6, whose gateway is from router advertisements. */
  family: Family
  /** The link's hardware address, "0a:58:0a:01:02:03". */
  mac: string
  /** The client identifier: option 61 of DHCPv4 with its type byte, the DUID of DHCPv6 (`makeDuid`). */
  clientId: string
  /** Additional options to send: code and bytes. */
  provide: readonly (readonly [number, string])[]
  /** Codes of the options to request, in order. */
  request: readonly number[]
  /** Whether DHCPv4 servers shall broadcast answers, for links that receive no unicast before they have an address. */
  broadcast: boolean
  /** The duration of the ARP probe for an IPv4 address before its use; 0 for no probe. */
  probeMs: number
  /** The wait for an answer to the first packet. Each later wait is twice as long. */
  timeoutMs: number
  /** The longest wait between two attempts. */
  resendMaxMs: number
  /** The link-local address, which has passed duplicate address detection. It is the source of DHCPv6 packets. */
  linkLocal?: string
}

/** A lease as text and numbers. Values that the server omitted are absent; lists may be empty. */
export interface Lease {
  /** The leased address, such as "10.1.2.3/24". */
  address: string
  /** The server's address, which is link-local for DHCPv6. */
  server: string
  /** The hardware address of the server, or of its relay, for unicast packets. */
  serverMac: string
  /** For DHCPv6: the server's DUID. */
  serverDuid?: string
  /** The time of the last acquisition or renewal. */
  since: number
  /** T1, T2, and the end of the lease. If absent, the lease never ends. */
  renewAt?: number
  rebindAt?: number
  expiresAt?: number
  gateway?: string
  /** The routes as in a result of ADD. `scope` 253 marks a route without a router. */
  routes: Route[]
  mtu?: number
  nameservers: string[]
  domain?: string
  search: string[]
  ntp: string[]
  hostname?: string
  /** All options of the answer, in order: code and bytes. */
  options: [number, string][]
}

export type ClientEvent =
  /**
   * Starts the client. A client with a valid lease asks the server whether to keep it (INIT-REBOOT, CONFIRM), for
   * example after a restart; any other client acquires a lease.
   */
  | { readonly kind: "start" }
  /** Passes an Ethernet frame of the link. The client ignores frames that are not for it. */
  | { readonly kind: "frame"; readonly frame: Uint8Array }
  /** Reports that the deadline has passed. The client ignores this before the deadline. */
  | { readonly kind: "time" }
  /** Releases the lease, and ends the client. */
  | { readonly kind: "release" }

export type Change =
  /** The first lease, or one after the loss of another. The caller must add its address. */
  | { readonly kind: "bound"; readonly lease: Lease }
  /** The lease was renewed. The caller must apply its differences from `before`. */
  | { readonly kind: "renewed"; readonly lease: Lease; readonly before: Lease }
  /** The address must no longer be used. The client requests another one. */
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

/** The whole state of a client, as in the journal. It is immutable: each step returns a new state. */
export interface ClientState {
  readonly config: ClientConfig
  readonly phase: Phase
  readonly xid: number
  readonly begunAt: number
  /** For DHCPv4: the field `secs` of the last DISCOVER. The REQUEST contains the same value. */
  readonly secs?: number
  /** The number of packets sent in the current transaction. */
  readonly sent: number
  /** The wait before the next packet of the current transaction. */
  readonly waitMs: number
  /** The number of failed attempts since the last lease. */
  readonly failures: number
  /** The time of the next "time" event; never if absent. */
  readonly deadline?: number
  /** The lease that is valid, or may still be valid. */
  readonly lease?: Lease
  /** The offer that the client requests or probes. */
  readonly offer?: Lease
  /** For DHCPv6: the last router advertisement. */
  readonly router?: RouterSeen
  /** The last packet for this client in words: "OFFER of 10.1.2.3 from 10.1.2.1". */
  readonly seen?: string
}

/** A server's answer to a client's request. `seen` describes it in words. */
export type Answer =
  /** An OFFER or ADVERTISE; or an ACK or REPLY. */
  | { readonly kind: "offer" | "ack"; readonly lease: Lease; readonly seen: string }
  /** The lease is valid and unchanged (a REPLY to CONFIRM). */
  | { readonly kind: "confirmed"; readonly seen: string }
  /** The lease may not be used (NAK, or status NotOnLink or NoAddrsAvail). */
  | { readonly kind: "nak"; readonly seen: string }
  /** The server has no record of the lease (status NoBinding). */
  | { readonly kind: "no binding"; readonly seen: string }
  /** The request failed: any other status, or a DHCPv6 answer without an address. */
  | { readonly kind: "failed"; readonly seen: string }
  /** A DHCPv4 answer without an address, which is ignored, because another server may still answer. */
  | { readonly kind: "ignored"; readonly seen: string }

export interface RouterSeen {
  readonly address: string
  readonly at: number
  readonly message: string
}

/** The output of a client for an event. */
export interface Step {
  readonly state: ClientState
  /** Ethernet frames to send on the link, in this order. */
  readonly send: readonly Uint8Array[]
  /** Changes of the lease to apply, in this order. */
  readonly changes: readonly Change[]
  /** Whether the client waits for frames. If not, the caller closes its socket, so that the namespace can go. */
  readonly listen: boolean
}

/** The time of an event in milliseconds, and a random number from 0 to less than 1. */
export interface Moment {
  readonly now: number
  random(): number
}
