import { concat, struct, u8, u16be, u32be } from "../../../pkg/netlink/mod.ts"
import { formatIp, parseIp, parseMac, sameBytes } from "../../../pkg/types/mod.ts"
import { fromHex } from "./bytes.ts"
import { broadcastMac, type Endpoint, encodeUdp, readPacket } from "./frames.ts"
import { addressOf, addressText, leaseOf } from "./lease4.ts"
import { encodeOptions, type Options, option, optionOf, readOptions } from "./options4.ts"
import type { Answer, ClientState, Lease, Moment } from "./types.ts"

/** Types of messages (RFC 2132, 9.6). */
const MessageType = {
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

/** The fields up to the hardware address (RFC 2131, 2). */
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
/** Offsets of fields in a message. */
const at = { mac: fixedPart.size, serverName: 44, file: 108, cookie: 236, options: 240 }

/** The size of the shortest message that servers accept (RFC 1542, 2.1). */
const minimalSize = 300

/**
 * Returns the UDP payload of a client's message. `secs` is the number of seconds since the client began to acquire its
 * address. `clientAddress` is the client's address if it already answers ARP for the address, or else 0.
 */
export function encodeMessage(
  fields: { xid: number; secs: number; flags: number; clientAddress: number },
  mac: Uint8Array,
  options: Options,
): Uint8Array {
  const start = new Uint8Array(at.options)
  start.set(fixedPart.encode({ op: BOOTREQUEST, hardware: ETHERNET, hardwareLength: mac.length, ...fields }))
  start.set(mac, at.mac)
  u32be.put(COOKIE, start, at.cookie)
  const whole = concat([start, encodeOptions(options)])
  return whole.length >= minimalSize ? whole : concat([whole, new Uint8Array(minimalSize - whole.length)])
}

/**
 * Reads a server's message. Its option 52 says whether the fields for file and server name contain more options.
 * Returns undefined for a client's message, a message without a type, or an option that exceeds its field.
 */
export function readMessage(payload: Uint8Array) {
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

/** The size of the longest accepted message in bytes: upstream's, and the MTU of most links. */
const maxSize = 1500

const clientPort = 68
const serverPort = 67
const unspecified = new Uint8Array(4)
const toAll: Endpoint = { mac: broadcastMac, ip: new Uint8Array(4).fill(255), port: serverPort }

type Option = readonly [number, Uint8Array]

/** Returns the frame that a client in this state sends (RFC 2131, table 5, lists its fields). */
export function requestFrame(state: ClientState): Uint8Array {
  const { phase, config, lease, offer } = state
  const options: Option[] = [option("maxSize", maxSize)]
  if (config.request.length > 0) options.push(option("parameters", Uint8Array.from(config.request)))
  for (const [code, value] of config.provide) options.push([code, fromHex(value)])
  if (phase === "requesting" && offer) options.push(...chosen(offer))
  if (phase === "rebooting" && lease) options.push(option("requestedAddress", addressText(lease)))
  const type = phase === "selecting" ? MessageType.Discover : MessageType.Request
  if (lease && phase === "renewing") return frame(state, type, { options, address: lease, to: serverOf(lease) })
  return frame(state, type, { options, ...(lease && phase === "rebinding" && { address: lease }) })
}

/**
 * Returns the frame that releases a lease. It is sent from the leased address to the server's, because a server's
 * kernel drops packets from 0.0.0.0 to one of its own addresses.
 */
export function releaseFrame(state: ClientState, lease: Lease): Uint8Array {
  const options = [option("server", lease.server)]
  return frame(state, MessageType.Release, { options, address: lease, to: serverOf(lease) })
}

export function declineFrame(state: ClientState, offer: Lease): Uint8Array {
  return frame(state, MessageType.Decline, { options: chosen(offer) })
}

function chosen(offer: Lease): Option[] {
  return [option("requestedAddress", addressText(offer)), option("server", offer.server)]
}

function frame(
  state: ClientState,
  type: number,
  { options, address, to }: { options: readonly Option[]; address?: Lease; to?: Endpoint },
): Uint8Array {
  const { config, xid } = state
  const isFree = type === MessageType.Release || type === MessageType.Decline // the length of seconds and flags
  const secs = isFree ? 0 : (state.secs ?? 0)
  const flags = config.broadcast && !isFree && address === undefined ? BROADCAST : 0
  const ip = address ? addressOf(address) : unspecified
  const mac = parseMac(config.mac) ?? new Uint8Array(6)
  const all = new Map([option("messageType", type), option("clientId", fromHex(config.clientId)), ...options])
  const message = encodeMessage({ xid, secs, flags, clientAddress: u32be.decode(ip) }, mac, all)
  return encodeUdp({ mac: config.mac, ip, port: clientPort }, to ?? toAll, message)
}

function serverOf({ server, serverMac }: Lease): Endpoint {
  return { mac: serverMac, ip: parseIp(server) ?? unspecified, port: serverPort }
}

/**
 * Reads a frame as a server's answer to the client's request. Returns undefined if hardware address or transaction
 * differ, for an ACK in "selecting", and in "requesting" for an answer of another server than the chosen one.
 */
export function readAnswer4(state: ClientState, frame: Uint8Array, moment: Moment): Answer | undefined {
  const packet = readPacket(frame)
  if (packet?.kind !== "udp" || packet.to.port !== clientPort || packet.to.ip.length !== 4) return undefined
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
  const before = phase === "requesting" ? offer : lease
  const given = leaseOf(message, { serverMac: packet.from.mac, moment, asked: state.config.request, before })
  const seen = `${phase === "selecting" ? "OFFER" : "ACK"} of ${message.yourAddress}${from}`
  if (typeof given === "string") return { kind: "ignored", seen: `${seen} (ignored: ${given})` }
  return { kind: phase === "selecting" ? "offer" : "ack", lease: given, seen }
}
