import { parseIp, parseMac } from "../../../pkg/types/mod.ts"
import { fromHex } from "./bytes.ts"
import { broadcastMac, type Endpoint, encodeUdp } from "./frames.ts"
import { addressOf, addressText } from "./lease4.ts"
import { encodeMessage, MessageType } from "./message4.ts"
import { option } from "./options4.ts"
import type { ClientConfig, ClientState, Lease } from "./types.ts"

const clientPort = 68
const serverPort = 67
const none = new Uint8Array(4)

/** What upstream says it takes; also the MTU of most links. */
const maxSize = 1500

const toAll: Endpoint = { mac: broadcastMac, ip: new Uint8Array(4).fill(255), port: serverPort }

/** Frames of DHCPv4; which of their fields is set when: RFC 2131, table 5. */
export const frames4 = {
  discover: (state: ClientState) => frame(state, MessageType.Discover, { options: asking(state.config) }),

  /** Takes an offer. */
  request: (state: ClientState, offer: Lease) =>
    frame(state, MessageType.Request, {
      options: [
        ...asking(state.config),
        option("requestedAddress", addressText(offer)),
        option("server", offer.server),
      ],
    }),

  /** Asks, after a restart, whether a lease still holds (INIT-REBOOT). */
  reboot: (state: ClientState, lease: Lease) =>
    frame(state, MessageType.Request, {
      options: [...asking(state.config), option("requestedAddress", addressText(lease))],
    }),

  /** Asks the server that gave the lease to prolong it. */
  renew: (state: ClientState, lease: Lease) =>
    frame(state, MessageType.Request, { options: asking(state.config), address: lease, to: serverOf(lease) }),

  /** Asks every server to prolong a lease. */
  rebind: (state: ClientState, lease: Lease) =>
    frame(state, MessageType.Request, { options: asking(state.config), address: lease }),

  /** Gives a lease back. Unicast from the address itself: a server's kernel drops what comes from 0.0.0.0 to one of its addresses. */
  release: (state: ClientState, lease: Lease) =>
    frame(state, MessageType.Release, {
      options: [option("server", lease.server)],
      address: lease,
      to: serverOf(lease),
    }),

  /** Says that an address is in use already. */
  decline: (state: ClientState, lease: Lease) =>
    frame(state, MessageType.Decline, {
      options: [option("requestedAddress", addressText(lease)), option("server", lease.server)],
    }),
} as const

type Option = readonly [number, Uint8Array]

function frame(
  state: ClientState,
  type: number,
  { options, address, to }: { options: readonly Option[]; address?: Lease; to?: Endpoint },
): Uint8Array {
  const { config, xid } = state
  const isFree = type === MessageType.Release || type === MessageType.Decline // of seconds and flags
  const message = encodeMessage({
    xid,
    secs: isFree ? 0 : (state.secs ?? 0),
    broadcast: config.broadcast && !isFree && address === undefined,
    ...(address && { clientAddress: addressText(address) }),
    mac: parseMac(config.mac) ?? new Uint8Array(6),
    options: new Map([option("messageType", type), option("clientId", fromHex(config.clientId)), ...options]),
  })
  const from: Endpoint = { mac: config.mac, ip: address ? addressOf(address) : none, port: clientPort }
  return encodeUdp(from, to ?? toAll, message)
}

/** What goes with everything that asks for something. */
function asking({ request, provide }: ClientConfig): Option[] {
  const options: Option[] = [option("maxSize", maxSize)]
  if (request.length > 0) options.push(option("parameters", Uint8Array.from(request)))
  return [...options, ...provide.map(([code, value]): Option => [code, fromHex(value)])]
}

function serverOf({ server, serverMac }: Lease): Endpoint {
  return { mac: serverMac, ip: parseIp(server) ?? none, port: serverPort }
}
