/**
 * One end of a TCP transfer. `transfer.ts sink BYTES` listens and prints its port. When that many bytes have arrived,
 * it prints their arrival times as JSON. `transfer.ts source ADDRESS PORT` sends until the other end closes the
 * connection.
 */
import { connect, createServer, type Socket } from "node:net"

const [role, first = "", second = ""] = process.argv.slice(2)

if (role === "sink") {
  const wanted = Number(first)
  const arrivals: [atMs: number, bytes: number][] = []
  let total = 0
  const server = createServer((socket) => {
    socket.on("error", () => {})
    socket.on("data", (chunk) => {
      total += chunk.length
      arrivals.push([performance.now(), total])
      if (total < wanted) return
      process.stdout.write(JSON.stringify(arrivals), () => process.exit(0))
    })
  })
  server.listen(0, "::", () => {
    const address = server.address()
    console.log(typeof address === "object" ? address?.port : "")
  })
} else {
  const block = Buffer.alloc(64 * 1024)
  const fill = (socket: Socket) => {
    while (socket.write(block));
  }
  const socket = connect(Number(second), first, () => fill(socket))
  socket.on("drain", () => fill(socket))
  socket.on("error", () => process.exit(0))
  socket.on("close", () => process.exit(0))
}
