import { engine } from "../engine/mod.ts"
import { type Fd, FileDescriptor, prepared } from "./descriptor.ts"
import { check, unlessErrno } from "./errno.ts"
import { MSG_DONTWAIT, SOCK_CLOEXEC, SOCK_NONBLOCK, SOCK_RAW } from "./socket.ts"

const AF_PACKET = 17
/** <linux/if_ether.h>: the protocols of frames. */
export const ETH_P_ALL = 0x0003
export const ETH_P_IP = 0x0800
export const ETH_P_IPV6 = 0x86dd

/** A filter's instruction: code, jump offsets for true and false, operand; struct sock_filter, <linux/filter.h>. */
export type FilterInstruction = readonly [code: number, jumpIfTrue: number, jumpIfFalse: number, operand: number]

/** Returns a filter as bytes, an array of struct sock_filter. */
export function encodeFilter(instructions: readonly FilterInstruction[]): Uint8Array {
  const bytes = new Uint8Array(8 * instructions.length)
  const view = new DataView(bytes.buffer)
  for (const [at, [code, jumpIfTrue, jumpIfFalse, operand]] of instructions.entries()) {
    view.setUint16(8 * at, code, true)
    view.setUint8(8 * at + 2, jumpIfTrue)
    view.setUint8(8 * at + 3, jumpIfFalse)
    view.setUint32(8 * at + 4, operand, true)
  }
  return bytes
}

/** A socket for the Ethernet frames of one link in the namespace in which it was opened, packet(7). */
export class PacketSocket extends FileDescriptor {
  /** The buffer for recvfrom(2)'s sender. It is not read, because the frame contains the sender as well. */
  readonly #sender = new Uint8Array(12)

  /**
   * Opens a socket on the link with this index. The socket receives only frames that pass the filter. Throws `ENODEV`
   * if the link does not exist, and `EPERM` without CAP_NET_RAW.
   */
  constructor(index: number, filter: Uint8Array) {
    const type = SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC
    // With protocol 0 the socket receives nothing, so no frame arrives before the filter is attached.
    super(check("socket", "AF_PACKET", () => engine.socket(AF_PACKET, type, 0)) as Fd)
    prepared(this, ({ fd }) => {
      check("setsockopt", "SO_ATTACH_FILTER", () => engine.attachFilter(fd, filter))
      const address = new Uint8Array(20) // struct sockaddr_ll: family, protocol, index, and an address that bind(2) ignores
      const view = new DataView(address.buffer)
      view.setUint16(0, AF_PACKET, true)
      view.setUint16(2, ETH_P_ALL) // in network order
      view.setInt32(4, index, true)
      check("bind", `link number ${index}`, () => engine.bind(fd, address))
    })
  }

  /** Sends one whole frame. Throws `SyscallError`: `ENETDOWN` while the link is down. */
  send(frame: Uint8Array): void {
    check("sendto", "a packet socket", () => engine.sendto(this.fd, frame, MSG_DONTWAIT))
  }

  /**
   * Receives the next frame into a buffer, and truncates a frame longer than the buffer. Returns `undefined` if no
   * frame has arrived. Throws `ENETDOWN` once the link goes down.
   */
  receive(into: Uint8Array): Uint8Array | undefined {
    const next = () => engine.recvfrom(this.fd, into, MSG_DONTWAIT, this.#sender)
    const length = unlessErrno(() => check("recvfrom", "a packet socket", next), "EAGAIN")
    return length === undefined ? undefined : into.subarray(0, length)
  }
}
