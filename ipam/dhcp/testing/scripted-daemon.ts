/**
 * A daemon for tests. The key "answer" of the configuration selects its answer. It prints each call as a line of JSON.
 *
 *   bun scripted-daemon.ts DIRECTORY   listens on DIRECTORY/dhcp.sock
 */
import { join } from "node:path"
import { type CallArguments, emptyType, encodeReply, resultType } from "../rpc/messages.ts"
import { type IncomingCall, RpcSession } from "../rpc/serve.ts"

const lease = {
  interfaces: [],
  ips: [{ address: "10.1.2.3/24", gateway: "10.1.2.1" }],
  routes: [{ dst: "0.0.0.0/0", gw: "10.1.2.1" }],
  dns: { nameservers: ["10.1.2.53"] },
}
/** The methods that only this suite's daemon has. */
const ours = ["DHCP.Check", "DHCP.Collect"]

function done(rpc: RpcSession, call: IncomingCall): Uint8Array {
  return call.method === "DHCP.Allocate"
    ? rpc.reply(call, resultType, encodeReply(lease))
    : rpc.reply(call, emptyType, {})
}

/** The functions that answer a call, by the value of "answer". For any other value the daemon never answers. */
const answers: Readonly<Record<string, (rpc: RpcSession, call: IncomingCall) => Uint8Array | undefined>> = {
  "": done,
  "in-pieces": done,
  refused: (rpc, call) => rpc.refuse(call, "no more tries"),
  "refused-by-upstream": (rpc, call) =>
    ours.includes(call.method) ? rpc.refuse(call, `rpc: can't find method ${call.method}`) : done(rpc, call),
  unreadable: (rpc, call) => rpc.reply(call, resultType, { IPs: [{ Gateway: Uint8Array.of(1, 2, 3) }] }),
}

/** Answers a call. `send` returns the number of bytes that it has sent. */
async function answer(rpc: RpcSession, call: IncomingCall, send: (bytes: Uint8Array) => number): Promise<void> {
  const kind = kindOf(call)
  const bytes = answers[kind]?.(rpc, call) ?? new Uint8Array()
  if (kind !== "in-pieces") send(bytes)
  else
    for (let at = 0, taken = 0; at < bytes.length && taken >= 0; await Bun.sleep(0)) {
      taken = send(bytes.subarray(at, at + 1))
      at += taken
    }
}

function kindOf({ call }: IncomingCall): string {
  return JSON.parse(new TextDecoder().decode(call.stdin)).answer
}

function textOf(call: CallArguments): object {
  return { ...call, stdin: new TextDecoder().decode(call.stdin) }
}

if (import.meta.main) {
  Bun.listen<RpcSession>({
    unix: join(Bun.argv[2] ?? "", "dhcp.sock"),
    socket: {
      open: (socket) => {
        socket.data = new RpcSession()
        socket.timeout(60) // a failing test must end before the plugin times out
      },
      timeout: (socket) => void socket.end(),
      data: (socket, bytes) => {
        const { calls, send } = socket.data.receive(new Uint8Array(bytes))
        socket.write(send)
        for (const each of calls) {
          console.log(JSON.stringify({ method: each.method, ...textOf(each.call) }))
          void answer(socket.data, each, (some) => socket.write(some))
          if (kindOf(each) === "gone") socket.end()
        }
      },
    },
  })
  const strangers: Record<string, string> = {
    "web.sock": "HTTP/1.0 400 Bad Request\r\n\r\n",
    "endless.sock": "x".repeat(20_000),
  }
  for (const [name, text] of Object.entries(strangers))
    Bun.listen({ unix: join(Bun.argv[2] ?? "", name), socket: { data: (socket) => void socket.write(text) } })
  console.log("listening")
}
