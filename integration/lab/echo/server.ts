/**
 * The echo peer: TCP and UDP on one port of one address. Prints the port in a line when it is ready.
 *
 *   bun integration/lab/echo/server.ts ADDRESS PORT     (port 0: any)
 */
/** What the echo peer answers: the message, and both ends of the flow as the peer sees them. */
export interface EchoReply {
  readonly message: string
  /** Who sent it; behind a masquerade this is the translating host. */
  readonly from: { readonly address: string; readonly port: number }
  /** Where it arrived; behind a port mapping this is the container. */
  readonly to: { readonly address: string; readonly port: number }
}

/** The transports that the echo peer speaks. */
export type Transport = "tcp" | "udp"

/** An address without the IPv4-mapped prefix that dual-stack sockets put in front of it. */
function plainAddress(address: string): string {
  return address.replace(/^::ffff:(?=\d+\.)/i, "")
}

function reply(message: string, from: EchoReply["from"], to: EchoReply["to"]): string {
  return JSON.stringify({
    message,
    from: { ...from, address: plainAddress(from.address) },
    to: { ...to, address: plainAddress(to.address) },
  } satisfies EchoReply)
}

if (import.meta.main) {
  const [, , address = "::", port = "0"] = process.argv
  const tcp = Bun.listen({
    hostname: address,
    port: Number(port),
    socket: {
      data(socket, bytes) {
        const from = { address: socket.remoteAddress, port: socket.remotePort }
        socket.end(reply(bytes.toString(), from, { address: socket.localAddress, port: socket.localPort }))
      },
    },
  })
  await Bun.udpSocket({
    hostname: address,
    port: tcp.port,
    socket: {
      data(socket, bytes, fromPort, fromAddress) {
        const to = { address: socket.address.address, port: socket.port }
        const answer = reply(bytes.toString(), { address: fromAddress, port: fromPort }, to)
        for (let attempt = 0; attempt < 2; attempt++)
          try {
            socket.send(answer, fromPort, fromAddress)
            return
          } catch (error) {
            if ((error as { code?: string }).code === "ECONNREFUSED") continue // that an earlier answer was refused
            console.error(`No way back to ${fromAddress}: ${error}`) // as on any real server: the asker waits in vain
            return
          }
      },
      // An asker that was closed refuses the answer; the server goes on.
      error() {},
    },
  })
  console.log(tcp.port)
}
