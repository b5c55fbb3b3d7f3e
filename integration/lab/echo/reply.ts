/** What the echo peer answers: the message, and both ends of the flow as the peer sees them. */
export interface EchoReply {
  readonly message: string
  /** Who sent it; behind a masquerade this is the translating host. */
  readonly from: { readonly address: string; readonly port: number }
  /** Where it arrived; behind a port mapping this is the container. */
  readonly to: { readonly address: string; readonly port: number }
}

/** The transports that the echo peer speaks. */
export type Transport = "tcp" | "udp"

/** An address without the IPv4-mapped prefix that dual-stack sockets put in front of it. */
export function plainAddress(address: string): string {
  return address.replace(/^::ffff:(?=\d+\.)/i, "")
}
