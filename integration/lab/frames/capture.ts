/**
 * Makes an interface of the current namespace promiscuous until stdin ends, like a packet capture: `bun capture.ts
 * br0`.
 */
import { engine } from "../../../pkg/engine/mod.ts"
import { getLink, RouteSocket } from "../../../pkg/netlink/mod.ts"
import { openPacketSocket } from "./packet-socket.ts"

// <linux/if_packet.h>
const SOL_PACKET = 263
const PACKET_ADD_MEMBERSHIP = 1
const PACKET_MR_PROMISC = 1

using route = RouteSocket.open()
const { index } = getLink(route, process.argv[2] ?? "eth0")
const membership = new DataView(new ArrayBuffer(16)) // struct packet_mreq
membership.setInt32(0, index, true)
membership.setUint16(4, PACKET_MR_PROMISC, true)
const answer = engine.setsockopt(
  openPacketSocket(index),
  SOL_PACKET,
  PACKET_ADD_MEMBERSHIP,
  new Uint8Array(membership.buffer),
)
if (answer < 0) throw new Error(`Cannot capture: error ${-answer}`)
console.log("capturing")
for await (const _chunk of Bun.stdin.stream());
