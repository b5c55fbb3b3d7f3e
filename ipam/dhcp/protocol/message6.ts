import { sha256 } from "../../../pkg/engine/mod.ts"
import { concat, u16be, u32be } from "../../../pkg/netlink/mod.ts"
import { formatIp, parseIp } from "../../../pkg/types/mod.ts"
import { decodeIfValid, fromHex, toHex } from "./bytes.ts"
import {
  type Endpoint,
  encodeIcmpv6,
  encodeUdp,
  ethernetAddress,
  type Host,
  multicastMac,
  readPacket,
} from "./frames.ts"
import { addressOf } from "./lease4.ts"
import { iaid, leaseOf6, type Refusal, Status6, statusOf } from "./lease6.ts"
import { decodeOptions6, encodeOptions6, type Options6, option6, option6Of } from "./options6.ts"
import type { Answer, ClientState, Lease, Moment, Phase } from "./types.ts"

/** Types of messages (RFC 8415, 7.3). */
const MessageType6 = {
  Solicit: 1,
  Advertise: 2,
  Request: 3,
  Confirm: 4,
  Renew: 5,
  Rebind: 6,
  Reply: 7,
  Release: 8,
} as const

const clientPort6 = 546
const serverPort6 = 547

/** The options that a result can contain: name servers, search list, time servers (RFC 3646, 5908, 4075). */
export const usualRequests6: readonly number[] = [23, 24, 56, 31]

/** Reads the payload of a datagram. Returns undefined if it is not a DHCPv6 message (RFC 8415, 8). */
function readMessage6(payload: Uint8Array) {
  const options = payload.length < 4 ? undefined : decodeIfValid({ decode: decodeOptions6 }, payload.subarray(4))
  const first = u32be.get(payload, 0)
  return options && { type: first >>> 24, xid: first & 0xffffff, options }
}

/** Returns the DUID for a text in hexadecimal: a UUID made from the text's digest (RFC 6355; RFC 9562, version 8). */
export function makeDuid(key: string): string {
  const uuid = fromHex(sha256(key).slice(0, 32))
  uuid[6] = 0x80 | ((uuid[6] ?? 0) & 0x0f)
  uuid[8] = 0x80 | ((uuid[8] ?? 0) & 0x3f)
  return `0004${toHex(uuid)}`
}

/** The multicast addresses ff02::1:2, All_DHCP_Relay_Agents_and_Servers, and ff02::2, all routers. */
const allServers = fromHex("ff020000000000000000000000010002")
const allRouters = fromHex("ff020000000000000000000000000002")

/** The type of message that a client sends in each state (RFC 8415, 18.2). */
const requests: Partial<Record<Phase, number>> = {
  selecting: MessageType6.Solicit,
  requesting: MessageType6.Request,
  rebooting: MessageType6.Confirm,
  renewing: MessageType6.Renew,
  rebinding: MessageType6.Rebind,
}

/**
 * Returns the frame that a client in this state sends. REQUEST and RENEW name their server. CONFIRM requests no
 * options, because it only asks whether the address is valid on the link.
 */
export function requestFrame6(state: ClientState, now: number): Uint8Array {
  const { phase, config, lease, offer } = state
  const address = phase === "requesting" ? offer : phase === "selecting" ? undefined : lease
  const server = phase === "requesting" || phase === "renewing" ? address : undefined
  const asked: Option6[] = []
  if (phase !== "rebooting") {
    if (config.request.length > 0)
      asked.push(option6("request", concat(config.request.map((code) => u16be.encode(code)))))
    for (const [code, value] of config.provide) asked.push([code, fromHex(value)])
  }
  return frame(state, requests[phase] ?? MessageType6.Solicit, now, { address, server, asked })
}

export function releaseFrame6(state: ClientState, lease: Lease, now: number): Uint8Array {
  return frame(state, MessageType6.Release, now, { address: lease, server: lease, asked: [] })
}

type Option6 = Options6[number]

/** Returns a frame for all servers on the link. */
function frame(
  state: ClientState,
  type: number,
  now: number,
  { address, server, asked }: { address: Lease | undefined; server: Lease | undefined; asked: Options6 },
): Uint8Array {
  const { config, xid } = state
  const hundredths = Math.min(0xffff, Math.max(0, Math.floor((now - state.begunAt) / 10)))
  const options: Option6[] = [option6("clientId", fromHex(config.clientId))]
  if (server?.serverDuid !== undefined) options.push(option6("serverId", fromHex(server.serverDuid)))
  options.push(option6("elapsed", hundredths))
  const ip = address && addressOf(address)
  const held = ip ? [option6("address", { ip, preferredSeconds: 0, validSeconds: 0, options: [] })] : []
  options.push(option6("association", { iaid, renewSeconds: 0, rebindSeconds: 0, options: held }), ...asked)
  const payload = concat([u32be.encode(type * 0x1000000 + xid), encodeOptions6(options)])
  return encodeUdp(sourceOf(state, clientPort6), { ...multicast(allServers), port: serverPort6 }, payload)
}

/** Returns a router solicitation (RFC 4861, 4.1). */
export function routerSolicitation(state: ClientState): Uint8Array {
  const message = concat([Uint8Array.of(133, 0, 0, 0, 0, 0, 0, 0, 1, 1), ethernetAddress(state.config.mac)])
  return encodeIcmpv6(sourceOf(state, 0), multicast(allRouters), message)
}

function sourceOf({ config: { mac, linkLocal } }: ClientState, port: number): Endpoint {
  const ip = linkLocal === undefined ? undefined : parseIp(linkLocal)
  if (ip?.length !== 16) throw new RangeError(`A client of DHCPv6 has a link-local address, not "${linkLocal}"`)
  return { mac, ip, port }
}

function multicast(ip: Uint8Array): Host {
  return { mac: multicastMac(ip), ip }
}

/**
 * Reads a frame as a server's answer to the client's request. Returns undefined if DUID or transaction differ, for a
 * REPLY in "selecting", and for a REPLY of another server than the requested one.
 */
export function readAnswer6(state: ClientState, frame: Uint8Array, moment: Moment): Answer | undefined {
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
    return refusal ? refused(refusal, `${name} ${from}`) : { kind: "confirmed", seen: `${name} ${from}` }
  }
  const given = leaseOf6(message, packet.from, moment, offer ?? lease)
  if ("why" in given) return refused(given, `${name} ${from}`)
  const seen = `${name} of ${given.address.replace("/128", "")} ${from}`
  return { kind: phase === "selecting" ? "offer" : "ack", lease: given, seen }
}

function refused({ status, why }: Refusal, message: string): Answer {
  const seen = `${message}: ${why}`
  if (status === Status6.NoBinding) return { kind: "no binding", seen }
  return { kind: status === Status6.NotOnLink || status === Status6.NoAddrsAvail ? "nak" : "failed", seen }
}
