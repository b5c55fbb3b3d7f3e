/**
 * A DHCP server on `eth0` of the current namespace that behaves as Debian's servers do not. Prints a line for each
 * packet that it has answered.
 *
 *   bun server.fixture.ts hostile FRAMES   sends many wrong or nearly right frames before the right one with 10.1.2.77
 *   bun server.fixture.ts moving           leases 10.1.2.77 for four seconds, and renews it as 10.1.2.78
 *   bun server.fixture.ts giant            answers with 10.1.2.66 and 1,700 routes (8.5 KB), then with 10.1.2.77
 *   bun server.fixture.ts refusing         leases 10.1.2.77 for four seconds, refuses to renew it, and then leases it with
 *                                          an MTU and a route that every kernel refuses
 */
import { writeSync } from "node:fs"
import { answer4, config4, createClient, readSent } from "../../ipam/dhcp/protocol/testing/link.ts"
import { encodeFilter, PacketSocket } from "../../pkg/libc/mod.ts"
import { getLink, RouteSocket } from "../../pkg/netlink/mod.ts"
import { formatMac } from "../../pkg/types/mod.ts"

const mode = process.argv[2]
const frames = mode === "hostile" ? Number(process.argv[3]) : 0
/** A filter for IPv4 UDP packets to port 67; <linux/bpf_common.h> */
const filter = encodeFilter([
  [0x28, 0, 0, 12],
  [0x15, 0, 3, 0x0800],
  [0x28, 0, 0, 36],
  [0x15, 0, 1, 67],
  [0x06, 0, 0, 0x40000],
  [0x06, 0, 0, 0],
])

/** The state of a linear congruential generator, which gives the same numbers in each run. */
let seed = 1
function below(bound: number): number {
  seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0
  return seed % bound
}

const answers: Record<string, number> = { "01": 2, "03": 5 }
/** Options that repeat, exceed the packet, or have a wrong length. */
const hostile: Record<number, string>[] = [
  { 119: "c000" },
  { 119: "0161c00401620163c000" },
  { 119: "3f".repeat(255) },
  { 121: "21ffffffffff" },
  { 121: "20".repeat(200) },
  { 33: "00".repeat(7) },
  { 1: "ff00ff00" },
  { 1: "" },
  { 3: "00000000" },
  { 26: "0001" },
  { 51: "00000000", 58: "ffffffff", 59: "00000000" },
  { 52: "03" },
  { 54: "ffffffff" },
  { 43: "ab".repeat(1000) },
]

/** A valid lease with an invalid domain name. */
const withName = { 15: Buffer.from("a\nnameserver 6.6.6.6").toString("hex"), 3: "0a010201", 51: "00000e10" }

/** An MTU of 65535, a route to 172.16.0.0/16 through the network's broadcast address, and a default route. */
const unusable = { 26: "ffff", 121: "10ac100a0102ff" + "000a010201", 51: "00000e10" }
let refusals = 0

using route = RouteSocket.open()
const socket = new PacketSocket(getLink(route, "eth0").index, filter)
writeSync(1, "listening\n")
const buffer = new Uint8Array(2048)
for (;;) {
  const frame = socket.receive(buffer)?.slice()
  if (!frame) {
    await Bun.sleep(1)
    continue
  }
  const { xid, options, clientAddress } = readSent(frame)
  const type = answers[options[53] ?? ""]
  if (type === undefined) continue
  const state = { ...createClient({ ...config4, mac: formatMac(frame.subarray(6, 12)) }), xid }
  if (mode === "refusing" && clientAddress !== "0.0.0.0") {
    refusals++
    socket.send(answer4(state, 6, "0.0.0.0"))
    continue
  }
  const isMoved = mode === "moving" && clientAddress !== "0.0.0.0"
  const seconds = mode === "moving" || mode === "refusing" ? "00000004" : "00000e10"
  const usual = refusals > 0 ? unusable : { 51: seconds, 3: "0a010201" }
  const good = answer4(state, type, isMoved ? "10.1.2.78" : "10.1.2.77", usual)
  if (mode === "giant") socket.send(answer4(state, type, "10.1.2.66", { 121: "000a010201".repeat(1700) }))
  for (let count = 0; count < frames; count++) {
    socket.send(worse(state, type, good))
    if (count % 64 === 63) await Bun.sleep(2) // the client's socket buffers some hundreds
  }
  if (frames > 0) await Bun.sleep(50)
  socket.send(good)
  writeSync(1, `answered ${type}\n`)
}

/**
 * Returns a frame that the client must ignore: it belongs to another transaction, its options are wrong or cut off, or
 * it contains random bytes.
 */
function worse(state: ReturnType<typeof createClient>, type: number, good: Uint8Array): Uint8Array {
  const kind = below(5)
  if (kind === 0) return answer4(state, type, "10.1.2.66", {}, (state.xid ^ (1 << below(31))) >>> 0)
  if (kind === 1) return answer4(state, type, "0.0.0.0", hostile[below(hostile.length)] ?? {})
  if (kind === 3) return answer4(state, type, "10.1.2.77", withName)
  if (kind === 2) return good.slice(0, 14 + below(good.length - 15))
  const noise = good.slice()
  for (let at = 14 + 20 + 8 + 240; at < noise.length; at++) noise[at] = below(256)
  return noise
}
