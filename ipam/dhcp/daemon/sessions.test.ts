import { afterEach, beforeEach, describe, expect, test } from "bun:test"
import { mkdtempSync, rmSync } from "node:fs"
import { join } from "node:path"
import { connectTo, type FileDescriptor, isErrno, listenAt, Poll, pollAll, read, write } from "../../../pkg/libc/mod.ts"
import type { Result } from "../../../pkg/types/mod.ts"
import { encodeAll } from "../rpc/gob.fixture.ts"
import type { GobObject } from "../rpc/gob.ts"
import { GobDecoder } from "../rpc/gob-decode.ts"
import { argumentType, decodeReply, requestType } from "../rpc/messages.ts"
import type { Waiter } from "./environment.ts"
import type { Holder } from "./holder.ts"
import { Refusal, type Service } from "./service.ts"
import { Sessions } from "./sessions.ts"

const result: Result = { interfaces: [], ips: [{ address: "10.1.2.3/24" }], routes: [], dns: {} }
const welcome = "HTTP/1.0 200 Connected to Go RPC\n\n"
const greeting = new TextEncoder().encode("CONNECT /_goRPC_ HTTP/1.0\n\n")
const holder = { key: "box/net/eth0" } as Holder

/** The calls of the service so far, and the callers that wait. */
let asked: unknown[]
let waiters: Waiter[]
let touched: Holder[]
let log: string[]
let act: (waiter?: Waiter) => Holder | undefined
let directory: string
let server: FileDescriptor
let sessions: Sessions
let clients: Client[]

beforeEach(() => {
  ;[asked, waiters, touched, log, clients] = [[], [], [], [], []]
  act = () => undefined
  directory = mkdtempSync("/tmp/dhcp-sessions-")
  server = listenAt(join(directory, "socket"))
  const on = (name: string) => (call: { containerId: string }, waiter?: Waiter) => {
    asked.push([name, call.containerId])
    if (waiter) waiters.push(waiter)
    return act(waiter)
  }
  const service = {
    ...Object.fromEntries(["allocate", "release", "check", "collect"].map((name) => [name, on(name)])),
    abandon: (whose: Holder, waiter: Waiter) => asked.push(["abandon", whose.key, waiters.indexOf(waiter)]),
  }
  sessions = new Sessions(
    service as unknown as Service,
    (line) => log.push(line),
    (each) => void touched.push(each),
  )
})
afterEach(() => {
  for (const client of clients) client.close()
  turn()
  server[Symbol.dispose]()
  rmSync(directory, { recursive: true })
})

function turn(): void {
  const buffer = new Uint8Array(65_536)
  sessions.accept(server.fd)
  for (let times = 0; times < 100; times++) {
    const { requests } = sessions
    const ready = pollAll(requests, 0)
    const found = requests.filter((_, at) => ready[at] !== 0)
    if (found.length === 0) return
    for (const { fd } of found) expect(sessions.serve(fd, buffer)).toBe(true)
  }
}

/** A caller that decodes the received messages of the protocol. */
class Client {
  readonly socket = connectTo(join(directory, "socket"))
  readonly #decoder = new GobDecoder()
  text = ""
  isClosed = false

  constructor(...bytes: Uint8Array[]) {
    clients.push(this)
    turn()
    for (const each of bytes) {
      write(this.socket.fd, each)
      turn()
    }
  }

  /** Returns the received bytes. Sets `isClosed` if the daemon has closed the connection. */
  receive(): Uint8Array {
    const buffer = new Uint8Array(1 << 20)
    let length = 0
    try {
      for (;;) {
        const more = read(this.socket.fd, buffer.subarray(length))
        if (more === 0) this.isClosed = true
        if (more === 0) break
        length += more
      }
    } catch (error) {
      if (!isErrno(error, "EAGAIN", "ECONNRESET")) throw error
    }
    return buffer.subarray(0, length)
  }

  values(): GobObject[] {
    const bytes = this.receive()
    const skipped = this.text === "" ? welcome.length : 0
    this.text += new TextDecoder("latin1").decode(bytes.subarray(0, skipped))
    this.#decoder.push(bytes.subarray(skipped))
    const values: GobObject[] = []
    for (let value = this.#decoder.next(); value; value = this.#decoder.next()) values.push({ ...value })
    return values
  }

  close(): void {
    this.socket[Symbol.dispose]()
  }
}

const callOf = (method: string, Seq = 0, ContainerID = "box"): [typeof requestType, GobObject][] => [
  [requestType, { ServiceMethod: method, Seq }],
  [argumentType, { ContainerID, Netns: "/run/netns/box", IfName: "eth0" }],
]
const callBytes = (method: string, Seq = 0) => encodeAll(...callOf(method, Seq))

describe("a call", () => {
  test.each([
    ["DHCP.Release", "release"],
    ["DHCP.Check", "check"],
    ["DHCP.Collect", "collect"],
  ])("of %s is done and answered with nothing", (method, name) => {
    const client = new Client(greeting, callBytes(method, 7))
    expect([client.values(), client.text]).toEqual([[{ ServiceMethod: method, Seq: 7 }, {}], welcome])
    expect([asked, log, touched]).toEqual([[[name, "box"]], [], []])
    expect(sessions.requests).toEqual([{ fd: expect.any(Number), events: Poll.In }])
  })

  test("of DHCP.Allocate is answered when there is a lease, and the holder's deadline is scheduled until then", () => {
    act = () => holder
    const client = new Client(greeting, callBytes("DHCP.Allocate", 3))
    expect([client.values(), touched, asked]).toEqual([[], [holder], [["allocate", "box"]]])
    waiters[0]?.answer(result)
    const [response, reply = {}] = client.values()
    expect([response, decodeReply(reply)]).toEqual([{ ServiceMethod: "DHCP.Allocate", Seq: 3 }, result])
    client.close()
    turn()
    expect(asked).toHaveLength(1) // no call waits
  })

  test("of DHCP.Allocate for a lease that is there is answered at once", () => {
    act = (waiter) => void waiter?.answer(result)
    const [, reply = {}] = new Client(greeting, callBytes("DHCP.Allocate")).values()
    expect([decodeReply(reply), touched]).toEqual([result, []])
  })

  test("of DHCP.Allocate that comes to nothing is refused with the reason", () => {
    act = () => holder
    const client = new Client(greeting, callBytes("DHCP.Allocate"))
    waiters[0]?.refuse("no more tries")
    expect(client.values()).toEqual([{ ServiceMethod: "DHCP.Allocate", Error: "no more tries" }, {}])
    client.close()
    turn()
    expect(asked).toHaveLength(1)
  })

  test.each([
    ["that is refused", () => new Refusal("no lease is known"), "no lease is known", []],
    ["that fails", () => new Error("ENOSPC"), "ENOSPC", ["DHCP.Check of box: Error: ENOSPC"]],
    ["that throws a text", () => "a text", "a text", ["DHCP.Check of box: a text"]],
  ])("%s is answered so, and what was not foreseen is in the log", (_, error, words, logged) => {
    act = () => {
      throw error()
    }
    const client = new Client(greeting, callBytes("DHCP.Check"))
    expect(client.values()).toEqual([{ ServiceMethod: "DHCP.Check", Error: words }, {}])
    expect([log, client.isClosed]).toEqual([logged, false])
  })

  test("of a method that does not exist is refused in the words of net/rpc", () => {
    const client = new Client(greeting, callBytes("DHCP.Nothing"))
    expect(client.values()).toEqual([
      { ServiceMethod: "DHCP.Nothing", Error: "rpc: can't find method DHCP.Nothing" },
      {},
    ])
    expect([log, asked]).toEqual([[], []])
  })

  test("may come in pieces, and with others", () => {
    const bytes = encodeAll(...callOf("DHCP.Check", 1), ...callOf("DHCP.Release", 2))
    const client = new Client(greeting, bytes.subarray(0, 50))
    expect(client.values()).toEqual([])
    write(client.socket.fd, bytes.subarray(50))
    turn()
    expect(client.values().filter((_, at) => at % 2 === 0)).toEqual([
      { ServiceMethod: "DHCP.Check", Seq: 1 },
      { ServiceMethod: "DHCP.Release", Seq: 2 },
    ])
    expect(asked.map(String)).toEqual(["check,box", "release,box"])
  })
})

test.each([
  ["a connection that is not of net/rpc", [new TextEncoder().encode("GET / HTTP/1.0\n\n")], ""],
  ["bytes that are not a call", [greeting, Uint8Array.of(3, 255, 255, 255)], welcome],
])("%s is answered with 404, and closed", (_, bytes, first) => {
  const client = new Client(...bytes)
  const text = new TextDecoder().decode(client.receive())
  expect(text).toBe(`${first}HTTP/1.0 404 Not Found\r\nConnection: close\r\n\r\n`)
  expect([client.isClosed, sessions.requests, log]).toEqual([true, [], []])
})

test("a closed connection abandons all that its calls wait for, and gets no answer", () => {
  act = () => holder
  const bytes = encodeAll(...callOf("DHCP.Allocate", 1), ...callOf("DHCP.Allocate", 2))
  const client = new Client(greeting, bytes)
  client.close()
  turn()
  expect(asked.slice(2).map(String)).toEqual(["abandon,box/net/eth0,0", "abandon,box/net/eth0,1"])
  expect(sessions.requests).toEqual([])
  waiters[0]?.answer(result)
  expect(asked).toHaveLength(4)
})

test("bytes that the peer does not take at once are written later", () => {
  const client = new Client(greeting)
  client.receive()
  client.text = welcome
  act = (waiter) => {
    const options = Array.from({ length: 40_000 }, (_, at) => `option-${at}`)
    waiter?.answer({ ...result, dns: { options } })
    return undefined
  }
  write(client.socket.fd, callBytes("DHCP.Allocate"))
  turn()
  expect(sessions.requests.map(({ events }) => events)).toEqual([Poll.In | Poll.Out])
  const values: GobObject[] = []
  for (let times = 0; values.length < 2 && times < 100; times++) {
    values.push(...client.values())
    turn()
  }
  expect(decodeReply(values[1] ?? {}).dns.options?.at(-1)).toBe("option-39999")
  expect(sessions.requests.map(({ events }) => events)).toEqual([Poll.In])
})

test("a descriptor that is not of a session is left alone", () => {
  expect(sessions.serve(server.fd, new Uint8Array(10))).toBe(false)
  sessions.accept(server.fd) // no connection is waiting
  expect(sessions.requests).toEqual([])
})
