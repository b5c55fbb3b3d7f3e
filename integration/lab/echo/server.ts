/**
 * Answers TCP and UDP messages on one port of one address. Prints the port on a line when the server listens. If PORT
 * is 0, the kernel chooses a free port.
 *
 *   bun integration/lab/echo/server.ts ADDRESS PORT
 */
/** The answer to a message: its text, and both ends of the connection as the server sees them. */
export interface EchoReply {
  readonly message: string
  /** The source of the message. If the message was masqueraded, this is an address of the translating host. */
  readonly from: { readonly address: string; readonly port: number }
  /**
   * The destination of the message. If a mapped port received the message, this is the container's address and port.
   */
  readonly to: { readonly address: string; readonly port: number }
}

export type Transport = "tcp" | "udp"

/** Returns an address without the IPv4-mapped prefix that dual-stack sockets add. */
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
            if ((error as { code?: string }).code === "ECONNREFUSED") continue // the client refused an earlier answer
            console.error(`No way back to ${fromAddress}: ${error}`) // the client gets no answer, as from a real server
            return
          }
      },
      // A client that has closed its socket refuses the answer. The server continues.
      error() {},
    },
  })
  console.log(tcp.port)
}
