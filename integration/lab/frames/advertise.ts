/** Sends one router advertisement twice on an interface of the current namespace: `bun advertise.ts eth0`. */
import { engine } from "../../../pkg/engine/mod.ts"
import { getLink, RouteSocket } from "../../../pkg/netlink/mod.ts"
import { openPacketSocket } from "./packet-socket.ts"

const ICMPV6 = 58
const allNodes = parse("ff02000000000000 0000000000000001")

using route = RouteSocket.open()
const link = getLink(route, process.argv[2] ?? "eth0")
const mac = parse(link.mac.replaceAll(":", ""))
const source = [...parse("fe80000000000000"), (mac[0] ?? 0) ^ 2, ...mac.slice(1, 3), 0xff, 0xfe, ...mac.slice(3)]

// RFC 4861, 4.2: this address is a default router for half an hour and advertises a prefix for autoconfiguration
const advertisement = parse(`
  86 00 0000  40 00 0708  00000000 00000000
  01 01 ${Buffer.from(mac).toString("hex")}
  03 04 40 c0 00015180 00003840 00000000 20010db80bad0000 0000000000000000`)
const length = [advertisement.length >> 8, advertisement.length & 0xff]
new DataView(advertisement.buffer).setUint16(
  2,
  checksum([...source, ...allNodes, 0, 0, ...length, 0, 0, 0, ICMPV6, ...advertisement]),
)
const ipv6 = [0x60, 0, 0, 0, ...length, ICMPV6, 255, ...source, ...allNodes]
const frame = [...parse("3333 0000 0001"), ...mac, 0x86, 0xdd, ...ipv6, ...advertisement]

const fd = openPacketSocket(link.index)
for (let count = 0; count < 2; count++) {
  if (engine.write(fd, new Uint8Array(frame)) !== frame.length) throw new Error("Cannot send the frame")
}

function parse(hex: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.fromHex(hex.replace(/\s/g, ""))
}

/** Returns the checksum of RFC 1071 for an even number of bytes. */
function checksum(bytes: readonly number[]): number {
  let sum = 0
  for (let at = 0; at < bytes.length; at += 2) sum += ((bytes[at] ?? 0) << 8) | (bytes[at + 1] ?? 0)
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >>> 16)
  return ~sum & 0xffff
}
