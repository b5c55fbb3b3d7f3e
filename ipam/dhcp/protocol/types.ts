import type { Family, Route } from "../../../pkg/types/mod.ts"

/**
 * What a client is told before it begins. Plain JSON, as all that a client's state is made of: addresses are text, bytes are
 * hexadecimal digits, times are milliseconds of the caller's clock, and what is absent is left out.
 */
export interface ClientConfig {
  /** `AF_INET`: DHCPv4. `AF_INET6`: DHCPv6, and the gateway by router advertisements. */
  family: Family
  /** The link's hardware address, "0a:58:0a:01:02:03". */
  mac: string
  /** What the server knows the client by: option 61 of DHCPv4 with its type byte, the DUID of DHCPv6 (`makeDuid`). */
  clientId: string
  /** Options to send besides: code and bytes. */
  provide: readonly (readonly [number, string])[]
  /** Codes of the options to ask for, in order. */
  request: readonly number[]
  /** Asks DHCPv4 servers to broadcast their answers: for links that get no unicast before they have an address. */
  broadcast: boolean
  /** How long an IPv4 address is probed for by ARP before it is used; 0 for no probe. */
  probeMs: number
  /** How long the first packet is waited on; each wait that follows is twice as long. */
  timeoutMs: number
  /** The longest wait between two attempts. */
  resendMaxMs: number
  /** The link's own address, fe80::/64, which is the source of DHCPv6. Has to pass the kernel's detection of duplicates first. */
  linkLocal?: string
}

/** What a server has given, as text and numbers; what it left out is absent, and lists are then empty. */
export interface Lease {
  /** "10.1.2.3/24" */
  address: string
  /** Where the lease comes from: the server's address; for DHCPv6 its link-local address. */
  server: string
  /** The server's hardware address, or its relay's: where unicast goes. */
  serverMac: string
  /** DHCPv6: the server's DUID. */
  serverDuid?: string
  /** When it was acquired or renewed last. */
  since: number
  /** When renewal begins (T1), any server may answer (T2), the lease ends. Absent: never. */
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

/** What happens to a client. */
export type ClientEvent =
  /** Acquires a lease. A client that has one asks whether it still holds (INIT-REBOOT, CONFIRM), as after a restart. */
  | { readonly kind: "start" }
  /** An Ethernet frame of the link; any at all, those that are not for the client are ignored. */
  | { readonly kind: "frame"; readonly frame: Uint8Array }
  /** The deadline has come; harmless when it has not. A client from the journal goes on with this one. */
  | { readonly kind: "time" }
  /** Gives the lease back and ends. */
  | { readonly kind: "release" }

/** What is to be done to the interface. */
export type Change =
  /** A lease where there was none: the first, or one after the loss of another. Its address is to be set. */
  | { readonly kind: "bound"; readonly lease: Lease }
  /** The lease goes on. What differs from `before` is to be changed. */
  | { readonly kind: "renewed"; readonly lease: Lease; readonly before: Lease }
  /** The address may not be used any more. The client goes on asking for another. */
  | { readonly kind: "lost"; readonly lease: Lease; readonly why: string }

/** Where a client is; RFC 2131, figure 5. "waiting" is between two attempts, "ended" after a release. */
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

/** A client, whole: what the journal keeps of it. Has no methods, and is never changed, only followed by another. */
export interface ClientState {
  readonly config: ClientConfig
  readonly phase: Phase
  /** The transaction that is under way. */
  readonly xid: number
  /** When that transaction began. */
  readonly begunAt: number
  /** DHCPv4: what the last DISCOVER of it said of its age; the REQUEST says the same. */
  readonly secs?: number
  /** Packets sent in it. */
  readonly sent: number
  /** Wait before the next packet of it. */
  readonly waitMs: number
  /** Attempts that failed since the last lease. */
  readonly failures: number
  /** When a "time" event is due. Absent: never. */
  readonly deadline?: number
  /** The lease that holds, or may still hold. */
  readonly lease?: Lease
  /** What was offered, and is being requested or probed for. */
  readonly offer?: Lease
  /** DHCPv6: what the last router advertisement said, as the bytes of its message, and whose it is. */
  readonly router?: RouterSeen
  /** The last packet seen that meant this client, in words: "OFFER of 10.1.2.3 from 10.1.2.1". */
  readonly seen?: string
}

/** A server's answer to what a state has sent. `seen` describes it in words. */
export type Answer =
  /** OFFER and ADVERTISE; ACK and REPLY. */
  | { readonly kind: "offer" | "ack"; readonly lease: Lease; readonly seen: string }
  /** The lease holds, unchanged: a REPLY to CONFIRM. */
  | { readonly kind: "confirmed"; readonly seen: string }
  /** The lease may not be used: NAK, or status NotOnLink or NoAddrsAvail. */
  | { readonly kind: "nak"; readonly seen: string }
  /** The server does not know the lease: status NoBinding. */
  | { readonly kind: "no binding"; readonly seen: string }
  /** The request has failed: any other status, or an answer of DHCPv6 that gives no address. */
  | { readonly kind: "failed"; readonly seen: string }
  /** An answer of DHCPv4 that gives no address; another one may follow. */
  | { readonly kind: "ignored"; readonly seen: string }

/** A router advertisement as the state keeps it. */
export interface RouterSeen {
  readonly address: string
  readonly at: number
  readonly message: string
}

/** What follows from an event. */
export interface Step {
  readonly state: ClientState
  /** Ethernet frames to send by a packet socket on the link, in this order. They are whole, also those that are unicast. */
  readonly send: readonly Uint8Array[]
  /** What to do to the interface, in this order. */
  readonly changes: readonly Change[]
  /** Whether frames matter from now on. Where they do not, the caller needs no socket, and holds no namespace. */
  readonly listen: boolean
}

/** When an event happens, in milliseconds, and chance: a number from 0 up to, but without, 1. */
export interface Moment {
  readonly now: number
  random(): number
}
