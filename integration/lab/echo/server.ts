/**
 * The echo peer: TCP and UDP on one port of one address. Prints the port in a line when it is ready.
 *
 *   bun integration/lab/echo/server.ts ADDRESS PORT     (port 0: any)
 */
/** The echo peer's answer: the message, and both ends of the flow as the peer sees them. */
export interface EchoReply {
  readonly message: string
  /** The sender. Behind a masquerade this is the translating host. */
  readonly from: { readonly address: string; readonly port: number }
  /** The destination. Behind a port mapping this is the container. */
  readonly to: { readonly address: string; readonly port: number }
}

/** The transports of the echo peer. */
export type Transport = "tcp" | "udp"

/** Returns an address without the IPv4-mapped prefix of dual-stack sockets. */
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
            if ((error as { code?: string }).code === "ECONNREFUSED") continue // an earlier answer was refused
            console.error(`No way back to ${fromAddress}: ${error}`) // like a real server: the client waits in vain
            return
          }
      },
      // A closed client refuses the answer. The server continues.
      error() {},
    },
  })
  console.log(tcp.port)
}
