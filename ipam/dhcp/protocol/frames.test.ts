import { describe, expect, test } from "bun:test"
import { createClient } from "./client.ts"
import { type Heard, socketFilter } from "./filter.ts"
import { checksum, encodeProbe, encodeUdp, findUser, multicastMac, readPacket } from "./frames.ts"
import { routerSolicitation } from "./message6.ts"
import * as captured from "./testing/captured.ts"
import { clientMac, config6, ip, serverMac } from "./testing/link.ts"

describe("a UDP datagram", () => {
  test("is framed as busybox frames it, checksums included", () => {
    const payload = captured.busyboxDiscover.subarray(42)
    const none = new Uint8Array(4)
    const all = new Uint8Array(4).fill(255)
    expect(
      encodeUdp({ mac: clientMac, ip: none, port: 68 }, { mac: "ff:ff:ff:ff:ff:ff", ip: all, port: 67 }, payload),
    ).toEqual(captured.busyboxDiscover)
  })

  test("is read though its checksum is not computed yet, as that of dnsmasq on the same machine", () => {
    expect(readPacket(captured.offer)).toEqual({
      kind: "udp",
      from: { mac: serverMac, ip: ip("10.1.2.1"), port: 67 },
      to: { mac: clientMac, ip: ip("10.1.2.50"), port: 68 },
      payload: captured.offer.subarray(42),
    })
  })

  test("of IPv6 is read, too", () => {
    expect(readPacket(captured.reply)).toEqual({
      kind: "udp",
      from: { mac: serverMac, ip: ip("fe80::858:aff:fe01:201"), port: 547 },
      to: { mac: clientMac, ip: ip("fe80::858:aff:fe01:203"), port: 546 },
      payload: captured.reply.subarray(62),
    })
  })

  test("has no checksum of 0, which would mean no checksum (RFC 768)", () => {
    const from = { mac: clientMac, ip: ip("10.0.0.1"), port: 68 }
    const to = { mac: serverMac, ip: ip("10.0.0.2"), port: 67 }
    const checksumWith = (payload: Uint8Array) => encodeUdp(from, to, payload).slice(40, 42)
    const rest = checksumWith(new Uint8Array(2))
    expect(checksumWith(rest)).toEqual(Uint8Array.of(0xff, 0xff)) // makes the sum all ones
  })

  const broken: [string, (frame: Uint8Array) => void][] = [
    ["a header whose checksum is wrong", (frame) => frame.set([0x12], 24)],
    ["a fragment", (frame) => setHeader(frame, 20, [0x20, 0])],
    ["a later fragment", (frame) => setHeader(frame, 20, [0, 1])],
    ["another protocol", (frame) => setHeader(frame, 23, [6])],
    ["another version", (frame) => setHeader(frame, 14, [0x65])],
    ["a header of less than 20 bytes", (frame) => setHeader(frame, 14, [0x44])],
    ["a length beyond the frame", (frame) => setHeader(frame, 16, [0x02, 0x00])],
    ["a UDP length beyond the packet", (frame) => frame.set([0x02, 0x00], 38)],
    ["a UDP length without a header", (frame) => frame.set([0, 7], 38)],
  ]
  test.each(broken)("is not read from %s", (_what, breakIt) => {
    const frame = captured.offer.slice()
    breakIt(frame)
    expect(readPacket(frame)).toBeUndefined()
  })

  // <linux/if_ether.h>: ETH_P_ARP, VLAN tags and other types.
  test.each([0x0806, 0x8100, 0x86dc, 0x0801])("is not read from a frame of another type, %p", (type) => {
    for (const whole of [captured.offer, captured.reply]) {
      const frame = whole.slice()
      frame.set([type >> 8, type & 0xff], 12)
      expect(readPacket(frame)).toBeUndefined()
    }
  })

  test("is not read from a frame that was truncated at any byte", () => {
    for (const whole of [captured.offer, captured.reply, captured.routerAdvertisement]) {
      for (let length = 0; length < whole.length; length++) {
        expect(readPacket(whole.subarray(0, length))).toBeUndefined()
      }
    }
  })
})

/** Changes an IPv4 header and recomputes its checksum, so that only the change is wrong. */
function setHeader(frame: Uint8Array, at: number, bytes: number[]): void {
  frame.set(bytes, at)
  frame.set([0, 0], 24)
  const sum = checksum([frame.subarray(14, 14 + ((frame[14] ?? 0) & 15) * 4)])
  frame.set([sum >> 8, sum & 0xff], 24)
}

describe("ARP", () => {
  test("asks for an address as busybox does", () => {
    const padding = new Uint8Array(18)
    expect(Uint8Array.of(...encodeProbe(clientMac, ip("10.1.2.50")), ...padding)).toEqual(captured.busyboxProbe)
  })

  // RFC 826: an answer of 0a:58:0a:01:02:09, the owner of 10.1.2.50.
  const answer = Uint8Array.fromHex(
    "0a580a010203 0a580a010209 0806 0001 0800 06 04 0002 0a580a010209 0a010232 0a580a010203 00000000".replaceAll(
      " ",
      "",
    ),
  )
  test("shows who uses an address: who answers, and who probes for it at the same time", () => {
    expect(findUser(answer, clientMac, ip("10.1.2.50"))).toBe("0a:58:0a:01:02:09")
    expect(findUser(encodeProbe(serverMac, ip("10.1.2.50")), clientMac, ip("10.1.2.50"))).toBe(serverMac)
  })

  test("shows nothing of the own probe, of other addresses, and of what is cut off", () => {
    expect(findUser(encodeProbe(clientMac, ip("10.1.2.50")), clientMac, ip("10.1.2.50"))).toBeUndefined()
    expect(findUser(answer, clientMac, ip("10.1.2.51"))).toBeUndefined()
    expect(findUser(encodeProbe(serverMac, ip("10.1.2.51")), clientMac, ip("10.1.2.50"))).toBeUndefined()
    for (let length = 0; length < answer.length; length++) {
      expect(findUser(answer.subarray(0, length), clientMac, ip("10.1.2.50"))).toBeUndefined()
    }
  })
})

describe("ICMPv6", () => {
  test("asks for routers as Linux does", () => {
    expect(routerSolicitation(createClient(config6))).toEqual(captured.routerSolicitation)
  })

  test("is not read when its checksum is wrong, or when it came through a router", () => {
    for (const at of [21, 60]) {
      const frame = captured.routerAdvertisement.slice()
      frame[at] = (frame[at] ?? 0) - 1
      expect(readPacket(frame)).toBeUndefined()
    }
    expect(readPacket(captured.routerAdvertisement)?.kind).toBe("icmpv6")
  })

  test("goes to the hardware address of a group", () => {
    expect(multicastMac(ip("ff02::1:2"))).toBe("33:33:00:01:00:02")
  })
})

/** Runs a classic BPF program that has only the instructions of our filters; `Documentation/networking/filter.rst`. */
function runFilter(program: Uint8Array, frame: Uint8Array): number {
  const view = new DataView(program.buffer, program.byteOffset, program.byteLength)
  let [a, x] = [0, 0]
  const load = (at: number, size: number) => {
    if (at + size > frame.length) throw new RangeError("beyond the frame")
    let value = 0
    for (let index = at; index < at + size; index++) value = value * 256 + (frame[index] ?? 0)
    return value
  }
  try {
    for (let at = 0; at < program.length; at += 8) {
      const [code, yes, no, k] = [
        view.getUint16(at, true),
        view.getUint8(at + 2),
        view.getUint8(at + 3),
        view.getUint32(at + 4, true),
      ]
      if (code === 0x28) a = load(k, 2)
      else if (code === 0x30) a = load(k, 1)
      else if (code === 0x48) a = load(x + k, 2)
      else if (code === 0xb1) x = (load(k, 1) & 15) * 4
      else if (code === 0x15) at += 8 * (a === k ? yes : no)
      else if (code === 0x45) at += 8 * ((a & k) !== 0 ? yes : no)
      else if (code === 0x06) return k
      else throw new Error(`instruction ${code}`)
    }
  } catch (error) {
    if (error instanceof RangeError) return 0 // the kernel drops the frame
    throw error
  }
  throw new Error("no end")
}

describe("the socket's filter", () => {
  const fragment = captured.offer.slice()
  fragment[21] = 1
  const frames: [string, Uint8Array, Heard[]][] = [
    ["OFFER", captured.offer, ["dhcp", "dhcp and arp"]],
    ["ACK", captured.ack, ["dhcp", "dhcp and arp"]],
    ["DISCOVER of another client", captured.busyboxDiscover, []],
    ["ARP", captured.busyboxProbe, ["dhcp and arp"]],
    ["a fragment", fragment, []],
    ["ADVERTISE", captured.advertise, ["dhcpv6"]],
    ["router advertisement", captured.routerAdvertisement, ["router"]],
    ["router solicitation", captured.routerSolicitation, []],
    ["half a frame", captured.offer.subarray(0, 30), []],
  ]
  const all: Heard[] = ["dhcp", "dhcp and arp", "dhcpv6", "router"]
  test.each(frames)("lets through only frames of its kind: %s", (_what, frame, heard) => {
    expect(all.filter((each) => runFilter(socketFilter(each), frame) > 0)).toEqual(heard)
  })

  test("takes 2,048 bytes of a frame at most", () => {
    expect(runFilter(socketFilter("dhcp and arp"), captured.busyboxProbe)).toBe(2048)
    expect(runFilter(socketFilter("dhcp"), captured.offer)).toBe(2048)
    expect(runFilter(socketFilter("dhcpv6"), captured.advertise)).toBe(2048)
    expect(runFilter(socketFilter("router"), captured.routerAdvertisement)).toBe(2048)
  })
})
