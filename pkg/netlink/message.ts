import { errnoName } from "../libc/mod.ts"
import { align, attrs } from "./attrs.ts"
import { DecodeError, text } from "./codec.ts"
import { i32, struct, u16, u32 } from "./integers.ts"
import { encoded, type Output } from "./output.ts"

/** <linux/netlink.h> */
export const NLM_F_REQUEST = 0x001
export const NLM_F_ACK = 0x004
export const NLM_F_ECHO = 0x008
export const NLM_F_DUMP_INTR = 0x010
export const NLM_F_DUMP = 0x300
export const NLM_F_REPLACE = 0x100
export const NLM_F_EXCL = 0x200
export const NLM_F_CREATE = 0x400
export const NLM_F_APPEND = 0x800
const NLM_F_CAPPED = 0x100
const NLM_F_ACK_TLVS = 0x200

export const NLMSG_ERROR = 2
export const NLMSG_DONE = 3
export const NLMSG_OVERRUN = 4

const HEADER = 16

/** A netlink message: struct nlmsghdr without its length and port, and the payload. */
export interface Message {
  type: number
  flags: number
  sequence: number
  payload: Uint8Array
}

/** Appends a message to a datagram: header, payload, padding. The port is left to the kernel. */
export function appendMessage({ type, flags, sequence, payload }: Message, to: Output): void {
  const start = to.end
  const room = to.reserve(HEADER)
  u32.put(HEADER + payload.length, room, start)
  u16.put(type, room, start + 4)
  u16.put(flags, room, start + 6)
  u32.put(sequence, room, start + 8)
  u32.put(0, room, start + 12)
  to.end = start + HEADER
  to.add(payload)
  to.align()
}

export function encodeMessage(type: number, flags: number, sequence: number, payload: Uint8Array): Uint8Array {
  return encoded(appendMessage, { type, flags, sequence, payload })
}

/** Returns the messages of one datagram. Throws `DecodeError` for a wrong length. */
export function readMessages(datagram: Uint8Array): Message[] {
  const messages: Message[] = []
  for (let at = 0; at < datagram.length; ) {
    const left = datagram.length - at
    const length = left < HEADER ? left : u32.get(datagram, at)
    if (length < HEADER || length > left) {
      throw new DecodeError(`the message at byte ${at} has length ${length}, but only ${left} bytes are left`)
    }
    messages.push({
      // Decoded inline, because a list has thousands of messages.
      type: (datagram[at + 4] as number) | ((datagram[at + 5] as number) << 8),
      flags: (datagram[at + 6] as number) | ((datagram[at + 7] as number) << 8),
      sequence: u32.get(datagram, at + 8),
      payload: datagram.subarray(at + HEADER, at + length),
    })
    at += (length + 3) & ~3
  }
  return messages
}

/** struct nlmsgerr, up to the answered request's header. `error` is a negative errno, or 0 for success. */
const errorHeader = struct({ error: i32, length: u32, type: u16, flags: u16, sequence: u32, port: u32 })

/** `enum nlmsgerr_attrs`: the kernel's own text about a refused request. */
const extendedAck = attrs({ message: [1, text], offset: [2, u32], missingType: [5, u32], missingNest: [6, u32] })

/** The content of `NLMSG_ERROR` or `NLMSG_DONE`: an errno, 0 for success, and the kernel's explanation, if any. */
export interface Acknowledgement {
  errno: number
  extack?: string
}

/** Decodes an `NLMSG_ERROR` message. Extended acks follow the request, or only its header if the kernel capped it. */
export function readAcknowledgement(message: Message): Acknowledgement {
  const { payload } = message
  const header = errorHeader.read(payload, 0, Math.min(errorHeader.size, payload.length))
  const capped = (message.flags & NLM_F_CAPPED) !== 0
  return {
    errno: 0 - header.error, // without the -0 of a negation
    ...extackIn(message, capped ? errorHeader.size : align(4 + header.length)),
  }
}

/** Decodes an `NLMSG_DONE` message: the outcome of a list. Old kernels do not report an outcome. */
export function readDone(message: Message): Acknowledgement {
  if (message.payload.length < 4) return { errno: 0 }
  return { errno: 0 - i32.get(message.payload, 0), ...extackIn(message, 4) }
}

function extackIn(message: Message, start: number): { extack?: string } {
  if ((message.flags & NLM_F_ACK_TLVS) === 0 || start >= message.payload.length) return {}
  const ack = extendedAck.read(message.payload, start, message.payload.length)
  if (ack.message !== undefined) return { extack: ack.message }
  return ack.missingType !== undefined ? { extack: `attribute ${ack.missingType} is missing` } : {}
}

/** The size in bytes of struct nfgenmsg: family, version, resource. */
export const NFGENMSG_SIZE = 4

/** Returns struct nfgenmsg, <linux/netfilter/nfnetlink.h>, with which every netfilter message begins. */
export function netfilterHeader(family: number, resource = 0): Uint8Array {
  return new Uint8Array([family, 0, resource >> 8, resource & 0xff])
}

/** The error for a refused request. It does not leave the process: plugins turn it into a `CniError`. */
export class NetlinkError extends Error {
  override readonly name = "NetlinkError"
  /** The name of the errno, such as "EEXIST". */
  readonly errno: string
  /** The kernel's explanation from the extended acknowledgement, if there is one. */
  readonly extack: string | undefined

  /** Whether the reason is temporary: during every attempt, other processes changed the same objects. */
  readonly willPass: boolean
  /** Whether the answer was lost, so that it is unknown whether the kernel executed the request. */
  readonly isLost: boolean

  constructor(what: string, errno: number | string, extack?: string, { willPass = false, isLost = false } = {}) {
    const name = typeof errno === "number" ? errnoName(errno) : errno
    super(`${what}: ${extack ? `${extack} (${name})` : name}`)
    this.errno = name
    this.extack = extack
    this.willPass = willPass
    this.isLost = isLost
  }
}

/** Decodes an answer by calling `read`. Throws `NetlinkError`, `EBADMSG`, for a malformed answer. */
export function readAnswer<T>(what: string, read: () => T): T {
  try {
    return read()
  } catch (error) {
    if (!(error instanceof DecodeError)) throw error
    throw new NetlinkError(what, "EBADMSG", `the kernel's answer cannot be read: ${error.message}`)
  }
}
