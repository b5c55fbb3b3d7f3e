import { bytes, concat, struct, u8, u16be } from "../../../pkg/netlink/mod.ts"
import { formatMac, sameBytes } from "../../../pkg/types/mod.ts"
import { broadcastMac, encodeFrame, ethernetAddress } from "./frames.ts"

/** <linux/if_ether.h>, <linux/if_arp.h> */
const ETH_P_ARP = 0x0806
const ARPHRD_ETHER = 1
const ETH_P_IP = 0x0800
const ARPOP_REQUEST = 1

/** RFC 826; four addresses follow. */
const arpHeader = struct({ hardware: u16be, protocol: u16be, hardwareLength: u8, protocolLength: u8, operation: u16be })
const header = { hardware: ARPHRD_ETHER, protocol: ETH_P_IP, hardwareLength: 6, protocolLength: 4 }
const none = new Uint8Array(4)

/** A frame that asks whether an IPv4 address is in use: an ARP probe, whose sender has no address (RFC 5227, 2.1.1). */
export function encodeProbe(mac: string, ip: Uint8Array): Uint8Array {
  const asked = concat([
    arpHeader.encode({ ...header, operation: ARPOP_REQUEST }),
    ethernetAddress(mac),
    none,
    new Uint8Array(6),
    ip,
  ])
  return encodeFrame(broadcastMac, mac, ETH_P_ARP, asked)
}

/**
 * The hardware address of another interface that a frame shows to use an IPv4 address, or to probe for it (RFC 5227, 2.1.1).
 * Undefined where the frame says nothing of it.
 */
export function findUser(frame: Uint8Array, mac: string, ip: Uint8Array): string | undefined {
  if (u16be.get(frame, 12) !== ETH_P_ARP || frame.length < 14 + 28) return undefined
  const arp = frame.subarray(14, 14 + 28)
  const { operation, ...rest } = arpHeader.decode(arp.subarray(0, arpHeader.size))
  if (!sameBytes(arpHeader.encode(rest), arpHeader.encode(header))) return undefined
  const sender = formatMac(arp.subarray(8, 14))
  const [senderIp, targetIp] = [bytes.decode(arp.subarray(14, 18)), bytes.decode(arp.subarray(24, 28))]
  const probes = operation === ARPOP_REQUEST && sameBytes(senderIp, none) && sameBytes(targetIp, ip)
  return sender !== mac && (sameBytes(senderIp, ip) || probes) ? sender : undefined
}
