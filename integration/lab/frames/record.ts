/** Prints the frames of an interface of the current namespace, one per line, until killed: `bun record.ts br0`. */
import { writeSync } from "node:fs"
import { engine } from "../../../pkg/engine/mod.ts"
import { getLink, RouteSocket } from "../../../pkg/netlink/mod.ts"
import { ETH_P_ALL, openPacketSocket } from "./packet-socket.ts"

using route = RouteSocket.open()
const fd = openPacketSocket(getLink(route, process.argv[2] ?? "eth0").index, ETH_P_ALL)
writeSync(1, "recording\n")
const frame = new Uint8Array(2048)
for (;;) {
  const length = engine.read(fd, frame)
  if (length < 0) throw new Error(`Cannot receive: error ${-length}`)
  writeSync(1, `${frame.subarray(0, length).toHex()}\n`)
}
