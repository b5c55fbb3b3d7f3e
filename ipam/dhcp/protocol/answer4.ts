import { parseMac, sameBytes } from "../../../pkg/types/mod.ts"
import { readPacket } from "./frames.ts"
import { leaseOf } from "./lease4.ts"
import { MessageType, readMessage } from "./message4.ts"
import { optionOf } from "./options4.ts"
import type { ClientState, Lease, Moment } from "./types.ts"

/** What a server has answered, and in words what was seen. */
export type Answer =
  | { readonly kind: "offer" | "ack"; readonly lease: Lease; readonly seen: string }
  | { readonly kind: "nak" | "useless"; readonly seen: string }

/**
 * Reads a frame as an answer to what a client has asked. Undefined for what is not for this client, or not for now: another
 * hardware address, another transaction, an ACK where an OFFER is due, an ACK of another server than the one that was asked.
 */
export function readAnswer(state: ClientState, frame: Uint8Array, moment: Moment): Answer | undefined {
  const packet = readPacket(frame)
  if (packet?.kind !== "udp" || packet.to.port !== 68 || packet.to.ip.length !== 4) return undefined
  const message = readMessage(packet.payload)
  if (message?.xid !== state.xid || !sameBytes(message.mac, parseMac(state.config.mac) ?? new Uint8Array()))
    return undefined
  const server = optionOf(message.options, "server")
  const { offer, lease, phase } = state
  if (phase === "requesting" && server !== offer?.server) return undefined
  const from = server === undefined ? "" : ` from ${server}`
  if (message.type === MessageType.Nak && phase !== "selecting") {
    const why = optionOf(message.options, "message")
    return { kind: "nak", seen: `NAK${from}${why === undefined ? "" : `: "${why}"`}` }
  }
  if (message.type !== (phase === "selecting" ? MessageType.Offer : MessageType.Ack)) return undefined
  const given = leaseOf(message, packet.from.mac, moment, phase === "requesting" ? offer : lease)
  const seen = `${phase === "selecting" ? "OFFER" : "ACK"} of ${message.yourAddress}${from}`
  if (typeof given === "string") return { kind: "useless", seen: `${seen}, which is ignored: ${given}` }
  return { kind: phase === "selecting" ? "offer" : "ack", lease: given, seen }
}
