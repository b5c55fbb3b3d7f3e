/** Data for tests of clients, with a server at the other end of the link. */
import { concat, u16be, u32be } from "../../../../pkg/netlink/mod.ts"
import { AF_INET, AF_INET6, parseIp } from "../../../../pkg/types/mod.ts"
import { fromHex, toHex } from "../bytes.ts"
import { advance, createClient } from "../client.ts"
import { encodeUdp, readPacket } from "../frames.ts"
import { iaid } from "../lease6.ts"
import { readMessage } from "../message4.ts"
import { makeDuid } from "../message6.ts"
import { encodeOptions, readOptions } from "../options4.ts"
import { encodeOptions6, type Options6 } from "../options6.ts"
import type { ClientConfig, ClientEvent, ClientState, Step } from "../types.ts"

export { createClient }

export const clientMac = "0a:58:0a:01:02:03"
export const serverMac = "0a:58:0a:01:02:01"
export const ip = (text: string) => parseIp(text) ?? new Uint8Array()

export const config4: ClientConfig = {
  family: AF_INET,
  mac: clientMac,
  clientId: `00${toHex(new Uint8Array([..."box/net/eth0"].map((letter) => letter.charCodeAt(0))))}`,
  provide: [],
  request: [3, 1],
  broadcast: false,
  probeMs: 0,
  timeoutMs: 4000,
  resendMaxMs: 64_000,
}

export const config6: ClientConfig = {
  ...config4,
  family: AF_INET6,
  clientId: makeDuid("box/net/eth0"),
  request: [23, 24, 56, 31],
  linkLocal: "fe80::858:aff:fe01:203",
}

/**
 * A client with a fixed clock and random numbers. After each step its state is encoded and decoded as in the journal.
 */
export class TestClient {
  state: ClientState
  now = 1_000_000
  random = 0.5
  step: Step = { state: createClient(config4), send: [], changes: [], listen: false }

  constructor(config: ClientConfig) {
    this.state = createClient(config)
  }

  on(event: ClientEvent): Step {
    this.step = advance(this.state, event, { now: this.now, random: () => this.random })
    this.state = JSON.parse(JSON.stringify(this.step.state)) as ClientState
    if (!Bun.deepEquals(this.state, this.step.state, true))
      throw new Error("The journal does not keep the state as it is")
    return this.step
  }

  start = () => this.on({ kind: "start" })
  frame = (frame: Uint8Array) => this.on({ kind: "frame", frame })

  wait(): Step {
    this.now = Math.max(this.now, this.state.deadline ?? Number.POSITIVE_INFINITY)
    return this.on({ kind: "time" })
  }

  /** The DHCPv4 messages of the last step, as a server reads them. */
  get sent(): Sent[] {
    return this.step.send.map(readSent)
  }
}

/** A client's DHCPv4 message as a server reads it: destination, fields, and options as hexadecimal digits. */
export interface Sent {
  toMac: string
  from: string
  to: string
  xid: number
  secs: number
  flags: number
  clientAddress: string
  options: Record<number, string>
}

export function readSent(frame: Uint8Array): Sent {
  const packet = readPacket(frame)
  if (packet?.kind !== "udp") throw new Error("This is no UDP datagram")
  const { payload } = packet
  const options = new Map<number, Uint8Array>()
  readOptions(payload.subarray(240), options)
  return {
    toMac: packet.to.mac,
    from: packet.from.ip.join("."),
    to: packet.to.ip.join("."),
    xid: u32be.get(payload, 4),
    secs: u16be.get(payload, 8),
    flags: u16be.get(payload, 10),
    clientAddress: payload.subarray(12, 16).join("."),
    options: Object.fromEntries(Array.from(options, ([code, value]) => [code, toHex(value)])),
  }
}

/** Returns a DHCPv4 answer of server 10.1.2.1. `options` follow the type; an empty text removes an option. */
export function answer4(
  state: ClientState,
  type: number,
  address: string,
  options: Record<number, string> = {},
  xid: number = state.xid,
): Uint8Array {
  const whole = { 53: `0${type}`, 54: "0a010201", 51: "0000000a", 1: "ffffff00", ...options }
  const sent = Object.entries(whole).filter(([, value]) => value !== "")
  const header = new Uint8Array(240)
  header.set([2, 1, 6, 0, ...u32be.encode(xid)])
  header.set(ip(address), 16)
  header.set(fromHex(state.config.mac.replaceAll(":", "")), 28)
  header.set(fromHex("63825363"), 236)
  const payload = concat([header, encodeOptions(new Map(sent.map(([code, value]) => [Number(code), fromHex(value)])))])
  return encodeUdp(
    { mac: serverMac, ip: ip("10.1.2.1"), port: 67 },
    { mac: state.config.mac, ip: ip(address), port: 68 },
    payload,
  )
}

export const serverDuid = "00030001020304050607"

export function association6(
  { t1 = 50, t2 = 80, preferred = 100, valid = 120, address = "2001:db8::5b" },
  inside: Options6 = [[5, concat([ip(address), u32be.encode(preferred), u32be.encode(valid)])]],
): readonly [number, Uint8Array] {
  return [3, concat([u32be.encode(iaid), u32be.encode(t1), u32be.encode(t2), encodeOptions6(inside)])]
}

export function answer6(state: ClientState, type: number, options: Options6, duid = serverDuid): Uint8Array {
  const ids: Options6 = [
    [1, fromHex(state.config.clientId)],
    [2, fromHex(duid)],
  ]
  const payload = concat([u32be.encode(type * 0x1000000 + state.xid), encodeOptions6([...ids, ...options])])
  const to = { mac: clientMac, ip: ip("fe80::858:aff:fe01:203"), port: 546 }
  return encodeUdp({ mac: serverMac, ip: ip("fe80::1"), port: 547 }, to, payload)
}

export function messageOf(frame: Uint8Array) {
  const packet = readPacket(frame)
  const message = packet?.kind === "udp" ? readMessage(packet.payload) : undefined
  if (!message) throw new Error("This is not a message")
  return message
}
