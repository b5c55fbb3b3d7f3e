import { decodeLatin1, encodeUtf8 } from "../../../pkg/engine/mod.ts"
import type { GobObject, Struct } from "./gob.ts"
import { GobEncoder } from "./gob.ts"
import { GobDecoder } from "./gob-decode.ts"
import { type CallArguments, decodeArguments, emptyType, responseType, textOf } from "./messages.ts"

const GREETING = /^CONNECT \/_goRPC_ HTTP\/1\.[01]\r?\n(?:[^\r\n]+\r?\n)*\r?\n/
const GREETING_MAX = 4096
const WELCOME = "HTTP/1.0 200 Connected to Go RPC\n\n"
const NOT_FOUND = "HTTP/1.0 404 Not Found\r\nConnection: close\r\n\r\n"

/** A call that has come in, and how it is answered. */
export interface IncomingCall {
  /** "DHCP.Allocate" */
  readonly method: string
  readonly sequence: number
  readonly call: CallArguments
}

/** The server's side of one connection of net/rpc, as bytes: what comes in becomes calls, answers become bytes. */
export class RpcSession {
  readonly #decoder = new GobDecoder()
  readonly #encoder = new GobEncoder()
  #greeting: string | undefined = ""
  #request: GobObject | undefined

  /**
   * Takes bytes as they come. Returns the calls that are complete with them, and what is to be sent at once. Throws for what is
   * no call: the connection is then of no use, and `reject` is the last that it is sent.
   */
  receive(bytes: Uint8Array): { calls: IncomingCall[]; send: Uint8Array } {
    let send = new Uint8Array()
    let rest = bytes
    if (this.#greeting !== undefined) {
      const before = this.#greeting.length
      this.#greeting += decodeLatin1(bytes)
      const whole = GREETING.exec(this.#greeting)
      if (!whole) {
        if (this.#greeting.length > GREETING_MAX || /\n\r?\n/.test(this.#greeting)) throw new RpcError("no CONNECT")
        return { calls: [], send }
      }
      this.#greeting = undefined
      rest = bytes.subarray(whole[0].length - before)
      send = encodeUtf8(WELCOME)
    }
    this.#decoder.push(rest)
    return { calls: this.#takeCalls(), send }
  }

  #takeCalls(): IncomingCall[] {
    const calls: IncomingCall[] = []
    for (;;) {
      const value = this.#decoder.next()
      if (!value) return calls
      if (!this.#request) {
        this.#request = value
        continue
      }
      const { Seq } = this.#request
      const method = textOf(this.#request, "ServiceMethod")
      calls.push({ method, sequence: typeof Seq === "number" ? Seq : 0, call: decodeArguments(value) })
      this.#request = undefined
    }
  }

  /** The answer to a call. */
  reply({ method, sequence }: IncomingCall, type: Struct, value: GobObject): Uint8Array {
    const response = this.#encoder.encode(responseType, { ServiceMethod: method, Seq: sequence })
    return joined(response, this.#encoder.encode(type, value))
  }

  /** The answer to a call that failed, in words. */
  refuse({ method, sequence }: IncomingCall, reason: string): Uint8Array {
    const response = this.#encoder.encode(responseType, { ServiceMethod: method, Seq: sequence, Error: reason })
    return joined(response, this.#encoder.encode(emptyType, {}))
  }
}

/** The answer to what is no call, before the connection is closed. */
export const rejection: () => Uint8Array = () => encodeUtf8(NOT_FOUND)

/** What has come over a connection is not net/rpc. */
export class RpcError extends Error {
  override readonly name = "RpcError"
}

function joined(first: Uint8Array, second: Uint8Array): Uint8Array {
  const all = new Uint8Array(first.length + second.length)
  all.set(first)
  all.set(second, first.length)
  return all
}
