import { sha256 } from "../../../pkg/engine/mod.ts"
import { concat, DecodeError, u16be, u32be } from "../../../pkg/netlink/mod.ts"
import { parseIp } from "../../../pkg/types/mod.ts"
import { fromHex, toHex } from "./bytes.ts"
import { type Endpoint, encodeIcmpv6, encodeUdp, ethernetAddress, multicastMac } from "./frames.ts"
import { addressOf } from "./lease4.ts"
import { decodeOptions6, encodeOptions6, type Options6, option6 } from "./options6.ts"
import type { ClientState, Lease } from "./types.ts"

/** RFC 8415, 7.3 */
export const MessageType6 = {
  Solicit: 1,
  Advertise: 2,
  Request: 3,
  Confirm: 4,
  Renew: 5,
  Rebind: 6,
  Reply: 7,
  Release: 8,
} as const

/** RFC 8415, 7.5 */
export const Status6 = { Success: 0, NoAddrsAvail: 2, NoBinding: 3, NotOnLink: 4 } as const

export const clientPort6 = 546
const serverPort6 = 547

/** The options that a result has room for: name servers, search list, time servers (RFC 3646, 5908, 4075). */
export const usualRequests6: readonly number[] = [23, 24, 56, 31]

/** The client has one DUID for each attachment, so one association is enough. */
export const iaid = 1

/** A message of DHCPv6 (RFC 8415, 8). */
export interface Message6 {
  type: number
  xid: number
  options: Options6
}

/** Undefined for what is no message. */
export function readMessage6(payload: Uint8Array): Message6 | undefined {
  if (payload.length < 4) return undefined
  const first = u32be.get(payload, 0)
  try {
    return { type: first >>> 24, xid: first & 0xffffff, options: decodeOptions6(payload.subarray(4)) }
  } catch (error) {
    if (error instanceof DecodeError) return undefined
    throw error
  }
}

/** A DUID that is always the same for the same text: a UUID of its digest (RFC 6355; RFC 9562, version 8), hexadecimal. */
export function makeDuid(key: string): string {
  const uuid = fromHex(sha256(key).slice(0, 32))
  uuid[6] = 0x80 | ((uuid[6] ?? 0) & 0x0f)
  uuid[8] = 0x80 | ((uuid[8] ?? 0) & 0x3f)
  return `0004${toHex(uuid)}`
}

/** ff02::1:2, All_DHCP_Relay_Agents_and_Servers, and ff02::2, all routers. */
const allServers = fromHex("ff020000000000000000000000010002")
const allRouters = fromHex("ff020000000000000000000000000002")

/** A frame for all servers on the link. `asks` adds what configuration is wanted, `server` names the one that is meant. */
export function encodeMessage6(
  state: ClientState,
  type: number,
  now: number,
  content: { address?: Lease | undefined; server?: string | undefined; asks?: boolean },
): Uint8Array {
  const { config, xid } = state
  const hundredths = Math.min(0xffff, Math.max(0, Math.floor((now - state.begunAt) / 10)))
  const options: (readonly [number, Uint8Array])[] = [option6("clientId", fromHex(config.clientId))]
  if (content.server !== undefined) options.push(option6("serverId", fromHex(content.server)))
  options.push(option6("elapsed", hundredths))
  const ip = content.address && addressOf(content.address)
  const held = ip ? [option6("address", { ip, preferredSeconds: 0, validSeconds: 0, options: [] })] : []
  options.push(option6("association", { iaid, renewSeconds: 0, rebindSeconds: 0, options: held }))
  if (content.asks && config.request.length > 0) {
    options.push(option6("request", concat(config.request.map((code) => u16be.encode(code)))))
  }
  if (content.asks) for (const [code, value] of config.provide) options.push([code, fromHex(value)])
  const payload = concat([u32be.encode(type * 0x1000000 + xid), encodeOptions6(options)])
  return encodeUdp(sourceOf(state, clientPort6), { ...multicast(allServers), port: serverPort6 }, payload)
}

/** A frame that asks routers to say who they are (RFC 4861, 4.1). */
export function encodeRouterSolicitation(state: ClientState): Uint8Array {
  const message = concat([Uint8Array.of(133, 0, 0, 0, 0, 0, 0, 0, 1, 1), ethernetAddress(state.config.mac)])
  return encodeIcmpv6(sourceOf(state, 0), multicast(allRouters), message)
}

function sourceOf({ config: { mac, linkLocal } }: ClientState, port: number): Endpoint {
  const ip = linkLocal === undefined ? undefined : parseIp(linkLocal)
  if (ip?.length !== 16) throw new RangeError(`A client of DHCPv6 has a link-local address, not "${linkLocal}"`)
  return { mac, ip, port }
}

function multicast(ip: Uint8Array): Omit<Endpoint, "port"> {
  return { mac: multicastMac(ip), ip }
}
