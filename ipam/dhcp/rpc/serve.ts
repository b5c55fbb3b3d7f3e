import { decodeLatin1, encodeUtf8 } from "../../../pkg/engine/mod.ts"
import { concat } from "../../../pkg/netlink/mod.ts"
import { GobEncoder, GobError, type GobObject, type Struct } from "./gob.ts"
import { GobDecoder } from "./gob-decode.ts"
import { type CallArguments, decodeArguments, emptyType, replyTypes, responseType, textOf } from "./messages.ts"

const GREETING = /^CONNECT \/_goRPC_ HTTP\/1\.[01]\r?\n(?:[^\r\n]+\r?\n)*\r?\n/
const GREETING_MAX = 4096
const WELCOME = "HTTP/1.0 200 Connected to Go RPC\n\n"
const NOT_FOUND = "HTTP/1.0 404 Not Found\r\nConnection: close\r\n\r\n"

export interface IncomingCall {
  /** The method, such as "DHCP.Allocate". */
  readonly method: string
  readonly sequence: number
  readonly call: CallArguments
}

/** The server's part of one net/rpc connection. It converts bytes to calls, and answers to bytes. */
export class RpcSession {
  readonly #decoder = new GobDecoder()
  readonly #encoder = new GobEncoder(replyTypes())
  #greeting: string | undefined = ""
  #request: GobObject | undefined

  /**
   * Processes bytes as they arrive. Returns the complete calls, and the bytes to send at once. Throws `GobError` for
   * invalid input; the caller then sends `rejection` and closes the connection.
   */
  receive(bytes: Uint8Array): { calls: IncomingCall[]; send: Uint8Array } {
    let send = new Uint8Array()
    let rest = bytes
    if (this.#greeting !== undefined) {
      const before = this.#greeting.length
      this.#greeting += decodeLatin1(bytes)
      const whole = GREETING.exec(this.#greeting)
      if (!whole) {
        if (this.#greeting.length > GREETING_MAX || /\n\r?\n/.test(this.#greeting)) throw new GobError("no CONNECT")
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

  reply({ method, sequence }: IncomingCall, type: Struct, value: GobObject): Uint8Array {
    const response = this.#encoder.encode(responseType, { ServiceMethod: method, Seq: sequence })
    return concat([response, this.#encoder.encode(type, value)])
  }

  refuse({ method, sequence }: IncomingCall, reason: string): Uint8Array {
    const response = this.#encoder.encode(responseType, { ServiceMethod: method, Seq: sequence, Error: reason })
    return concat([response, this.#encoder.encode(emptyType, {})])
  }
}

/** Returns the last bytes for a peer that does not use net/rpc. */
export const rejection: () => Uint8Array = () => encodeUtf8(NOT_FOUND)
