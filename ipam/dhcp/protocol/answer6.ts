import { formatIp } from "../../../pkg/types/mod.ts"
import { toHex } from "./bytes.ts"
import { readPacket } from "./frames.ts"
import { leaseOf6, statusOf } from "./lease6.ts"
import { clientPort6, MessageType6, readMessage6 } from "./message6.ts"
import { option6Of } from "./options6.ts"
import type { ClientState, Lease, Moment } from "./types.ts"

/** What a server has answered, and in words what was seen. */
export type Answer6 =
  | { readonly kind: "lease"; readonly lease: Lease; readonly seen: string }
  | { readonly kind: "refused"; readonly status: number | undefined; readonly seen: string }
  | { readonly kind: "confirmed"; readonly seen: string }

/**
 * Reads a frame as an answer to what a client has asked. Undefined for what is not for this client, or not for now: another DUID,
 * another transaction, a REPLY where an ADVERTISE is due, a REPLY of another server than the one that was asked.
 */
export function readAnswer6(state: ClientState, frame: Uint8Array, moment: Moment): Answer6 | undefined {
  const packet = readPacket(frame)
  if (packet?.kind !== "udp" || packet.to.port !== clientPort6 || packet.to.ip.length !== 16) return undefined
  const message = readMessage6(packet.payload)
  const { phase, config, offer, lease, xid } = state
  const expected = phase === "selecting" ? MessageType6.Advertise : MessageType6.Reply
  if (message?.type !== expected || message.xid !== xid) return undefined
  const [client, server] = [option6Of(message.options, "clientId"), option6Of(message.options, "serverId")]
  if (!client || !server || toHex(client) !== config.clientId) return undefined
  const asked = phase === "requesting" ? offer : phase === "renewing" ? lease : undefined
  if (asked && asked.serverDuid !== toHex(server)) return undefined
  const from = `from ${formatIp(packet.from.ip)}`
  const name = phase === "selecting" ? "ADVERTISE" : "REPLY"
  if (phase === "rebooting") {
    const refusal = statusOf(message.options)
    if (!refusal) return { kind: "confirmed", seen: `${name} ${from}` }
    return { kind: "refused", status: refusal.status, seen: `${name} ${from}: ${refusal.why}` }
  }
  const given = leaseOf6(message, packet.from, moment, offer ?? lease)
  if ("why" in given) return { kind: "refused", status: given.status, seen: `${name} ${from}: ${given.why}` }
  return { kind: "lease", lease: given, seen: `${name} of ${given.address.replace("/128", "")} ${from}` }
}
