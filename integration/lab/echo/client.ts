/**
 * Sends one message to an echo peer and prints the answer as a line of JSON. Exits with code 1 if no answer arrives
 * before the deadline.
 *
 *   bun integration/lab/echo/client.ts tcp|udp ADDRESS PORT MESSAGE DEADLINE_MS
 */
import type { Transport } from "./server.ts"

function askTcp(hostname: string, port: number, message: string): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>()
  let answer = ""
  Bun.connect({
    hostname,
    port,
    socket: {
      open: (socket) => void socket.write(message),
      data(_, bytes) {
        answer += bytes.toString()
      },
      close: () => (answer === "" ? reject(new Error("the connection was closed without an answer")) : resolve(answer)),
      connectError: (_, error) => reject(error),
      error: (_, error) => reject(error),
    },
  }).catch(reject)
  return promise
}

async function askUdp(hostname: string, port: number, message: string): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>()
  const socket = await Bun.udpSocket({
    hostname: hostname.includes(":") ? "::" : "0.0.0.0",
    connect: { hostname, port },
    socket: { data: (_, bytes) => resolve(bytes.toString()), error: (_, error) => reject(error) },
  })
  socket.send(message)
  setInterval(() => socket.send(message), 1000) // repeated, because a busy machine may drop a datagram
  return promise
}

if (import.meta.main) {
  const [, , transport, address = "", port = "0", message = "", deadlineMs = "1000"] = process.argv
  const ask = { tcp: askTcp, udp: askUdp }[transport as Transport]
  const late = Bun.sleep(Number(deadlineMs)).then(() => Promise.reject(new Error(`no answer in ${deadlineMs} ms`)))
  try {
    console.log(await Promise.race([ask(address, Number(port), message), late]))
    process.exit(0)
  } catch (error) {
    console.error(`${transport} to ${address} port ${port}: ${error instanceof Error ? error.message : error}`)
    process.exit(1)
  }
}
