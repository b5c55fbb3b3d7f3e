import { engine } from "../../../pkg/engine/mod.ts"

// <linux/socket.h>, <linux/if_ether.h>
const AF_PACKET = 17
const SOCK_RAW = 3
const ETH_P_IPV6 = 0x86dd
/** The protocol number for frames of every protocol, including sent frames. */
export const ETH_P_ALL = 3

/** Opens a packet socket for one interface in the namespace of this process. The socket receives complete frames. */
export function openPacketSocket(index: number, protocol: number = ETH_P_IPV6): number {
  const fd = engine.socket(AF_PACKET, SOCK_RAW, 0)
  const address = new DataView(new ArrayBuffer(20)) // struct sockaddr_ll
  address.setUint16(0, AF_PACKET, true)
  address.setUint16(2, protocol)
  address.setInt32(4, index, true)
  const answer = fd < 0 ? fd : engine.bind(fd, new Uint8Array(address.buffer))
  if (answer < 0) throw new Error(`Cannot open a packet socket: error ${-answer}`)
  return fd
}
