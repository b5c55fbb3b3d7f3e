import { concat, struct, u8, u16be, u32be } from "../../../pkg/netlink/mod.ts"
import { formatIp, parseIp } from "../../../pkg/types/mod.ts"
import { encodeOptions, type Options, optionOf, readOptions } from "./options4.ts"

/** RFC 2132, 9.6 */
export const MessageType = {
  Discover: 1,
  Offer: 2,
  Request: 3,
  Decline: 4,
  Ack: 5,
  Nak: 6,
  Release: 7,
} as const

const BOOTREQUEST = 1
const BOOTREPLY = 2
const ETHERNET = 1
const BROADCAST = 0x8000
const COOKIE = 0x63825363

/** RFC 2131, 2: the fixed part up to the hardware address. */
const fixedPart = struct({
  op: u8,
  hardware: u8,
  hardwareLength: u8,
  hops: u8,
  xid: u32be,
  secs: u16be,
  flags: u16be,
  clientAddress: u32be,
  yourAddress: u32be,
  nextServer: u32be,
  relay: u32be,
})
/** Where things are in a message. */
const at = { mac: fixedPart.size, serverName: 44, file: 108, cookie: 236, options: 240 }

/** No server takes less (RFC 1542, 2.1). */
const minimalSize = 300

/** What a client sends. */
export interface ClientMessage {
  xid: number
  /** Seconds since the client began. */
  secs: number
  broadcast: boolean
  /** The client's address, if it has one that it answers ARP for. */
  clientAddress?: string
  mac: Uint8Array
  options: Options
}

/** What a server has answered. */
export interface ServerMessage {
  xid: number
  yourAddress: string
  mac: Uint8Array
  type: number
  options: Options
}

/** The UDP payload of a client's message. */
export function encodeMessage(message: ClientMessage): Uint8Array {
  const header = fixedPart.encode({
    op: BOOTREQUEST,
    hardware: ETHERNET,
    hardwareLength: message.mac.length,
    xid: message.xid,
    secs: message.secs,
    flags: message.broadcast ? BROADCAST : 0,
    clientAddress:
      message.clientAddress === undefined ? 0 : u32be.decode(parseIp(message.clientAddress) ?? new Uint8Array(4)),
  })
  const start = new Uint8Array(at.options)
  start.set(header)
  start.set(message.mac, at.mac)
  u32be.put(COOKIE, start, at.cookie)
  const whole = concat([start, encodeOptions(message.options)])
  return whole.length >= minimalSize ? whole : concat([whole, new Uint8Array(minimalSize - whole.length)])
}

/**
 * Reads a server's message. Options go on in the fields for file and server name where option 52 says so. Undefined for what is no
 * answer, has no type, or has an option that goes beyond its field.
 */
export function readMessage(payload: Uint8Array): ServerMessage | undefined {
  if (payload.length < at.options || u32be.get(payload, at.cookie) !== COOKIE) return undefined
  const { op, hardware, hardwareLength, xid, yourAddress } = fixedPart.decode(payload.subarray(0, fixedPart.size))
  if (op !== BOOTREPLY || hardware !== ETHERNET || hardwareLength !== 6) return undefined
  const options = new Map<number, Uint8Array>()
  if (!readOptions(payload.subarray(at.options), options)) return undefined
  const overload = optionOf(options, "overload") ?? 0
  if (overload & 1 && !readOptions(payload.subarray(at.file, at.cookie), options)) return undefined
  if (overload & 2 && !readOptions(payload.subarray(at.serverName, at.file), options)) return undefined
  const type = optionOf(options, "messageType")
  if (type === undefined) return undefined
  return {
    xid,
    yourAddress: formatIp(u32be.encode(yourAddress)),
    mac: payload.subarray(at.mac, at.mac + 6),
    type,
    options,
  }
}
